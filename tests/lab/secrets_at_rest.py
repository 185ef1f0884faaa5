"""The Secrets of a cluster as etcd holds them."""

from __future__ import annotations

import base64
import json
import re

from lab.cluster import Cluster


def stored_with(cluster: Cluster, control_plane: str) -> dict[str, set[str]]:
    """Provider -> the Secrets that etcd has encrypted with it."""
    asked = ("get", "/registry/secrets/", "--prefix", "--write-out=json")
    found: dict[str, set[str]] = {}
    for each in json.loads(cluster.etcdctl(control_plane, *asked))["kvs"]:
        value = base64.b64decode(each["value"])
        closed = re.match(rb"k8s:enc:secretbox:v1:([^:]+):", value)
        provider = closed[1].decode() if closed else "identity"
        found.setdefault(provider, set()).add(base64.b64decode(each["key"]).decode())
    return found
