"""The mark by which servers and volumes are known as those of one cluster."""

from typing import Any

# Metadata: the ID of the cluster.
CLUSTER = "cluster"


def cluster_of(resource: Any) -> str | None:  # noqa: ANN401 - a server or volume of openstacksdk
    """The ID of the cluster that a server or volume belongs to, if it has the mark."""
    found: str | None = (resource.metadata or {}).get(CLUSTER)
    return found
