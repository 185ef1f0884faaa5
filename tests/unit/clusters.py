"""The cluster with the least configuration that a user must set."""

from collections.abc import Mapping
from typing import Any

from config.load import load
from config.models.cluster import Cluster

LEAST: Mapping[str, Any] = {
    "externalNetwork": "public",
    "allowedCidrs": ["203.0.113.0/24"],
    "image": "debian-13",
    "flavor": "m1.medium",
}


def cluster(**more: object) -> Cluster:
    """The cluster `demo` with these keys in addition."""
    return load({**LEAST, **more}, "demo")
