"""`Stack` objects in the admin cluster: each is a cluster that Pulumi's operator runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from commands.errors import CommandError
from commands.pulumi_cli import backend_url

NAMESPACE = "clusters"
API = "/apis/pulumi.com/v1"
STACKS = f"{API}/namespaces/{NAMESPACE}/stacks"
# Annotation: the object does not tell it itself.
PROJECT = "openstack-kubernetes-project"


class StackObjectError(CommandError):
    """The admin cluster cannot run the cluster; the text says what to do."""


@dataclass(frozen=True)
class Identity:
    """The stack that an object is about; in another project or backend, it is another one."""

    stack: str
    project: str
    backend: str

    def __str__(self) -> str:
        return f"{self.stack} of the project {self.project} in {self.backend}"


def identity(document: Mapping[str, Any], project: str) -> Identity:
    """The stack of an object; of this project if it was made before objects told theirs."""
    marks = document["metadata"].get("annotations", {})
    spec = document["spec"]
    return Identity(spec.get("stack", ""), marks.get(PROJECT, project), spec.get("backend", ""))


def backend() -> str:
    """The URL of the backend, as `pulumi login` takes it.

    Raises:
        StackObjectError: if the CLI does not tell it.
    """
    told = backend_url()
    parts = urlsplit(told)
    # Of Pulumi Cloud it tells the page for people, and of a service of one's own nothing.
    if parts.scheme not in ("", "http", "https"):
        return told
    if named := os.environ.get("PULUMI_BACKEND_URL"):
        return named
    if not parts.netloc.startswith("app."):
        raise StackObjectError(
            "Pulumi does not tell the URL of its backend: set PULUMI_BACKEND_URL to it"
        )
    return f"{parts.scheme}://api.{parts.netloc.removeprefix('app.')}"
