"""Kubernetes objects by their paths, applied on the side of the server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

# Of all fields that the fleet's commands set; those of others are left alone.
FIELD_MANAGER = "openstack-kubernetes-fleet"


def apply(api: httpx.Client, collection: str, document: Mapping[str, Any]) -> None:
    """Create the object in this collection, or change what differs."""
    api.patch(
        f"{collection}/{document['metadata']['name']}",
        params={"fieldManager": FIELD_MANAGER, "force": "true"},
        headers={"Content-Type": "application/apply-patch+yaml"},
        # JSON is YAML.
        content=json.dumps(document),
    ).raise_for_status()


def merge(api: httpx.Client, path: str, changes: Mapping[str, Any]) -> None:
    """Change these fields of an object, whoever has set them; null removes one."""
    api.patch(
        path,
        params={"fieldManager": FIELD_MANAGER},
        headers={"Content-Type": "application/merge-patch+json"},
        content=json.dumps(changes),
    ).raise_for_status()


def delete(api: httpx.Client, collection: str, name: str) -> None:
    """Delete the object, if there is one."""
    answer = api.delete(f"{collection}/{name}")
    if answer.status_code != httpx.codes.NOT_FOUND:
        answer.raise_for_status()


def exists(api: httpx.Client, path: str) -> bool:
    """True if there is an object at this path."""
    answer = api.get(path)
    return answer.status_code != httpx.codes.NOT_FOUND and bool(answer.raise_for_status())


def labelled(api: httpx.Client, collection: str, label: str) -> list[dict[str, Any]]:
    """The objects of a collection with this `name=value`."""
    answer = api.get(collection, params={"labelSelector": label}).raise_for_status()
    found: list[dict[str, Any]] = answer.json()["items"]
    return found
