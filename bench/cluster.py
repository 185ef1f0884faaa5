"""The program's cluster in a bench: brought up from nothing, until every node is Ready."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import yaml

from bench.figures import seconds
from lab import image, settings
from lab.cluster import Cluster, is_ready
from lab.errors import LabError
from lab.image import versions


def cluster(name: str, gateways: int, control_planes: int, workers: int) -> Cluster:
    """A cluster that is not up yet."""
    node_image = image.name(versions.KUBERNETES)
    keys = settings.cluster(
        image=node_image, gateways=gateways, control_planes=control_planes, workers=workers
    )
    return Cluster(name, keys)


def from_nothing(made: Cluster, nodes: int, *flags: str) -> tuple[float, float]:
    """Measure the seconds of `pulumi up`, and those until all nodes were Ready.

    The second figure comes from the Node objects: the update then still waits for the add-ons.
    """
    require_nothing(made)
    began = datetime.now(UTC)
    up = seconds(lambda: made.update(*flags))
    made.stack.write_kubeconfig(made.kubeconfig)
    return up, until_ready(made.kubectl("get", "nodes", "-o", "json"), nodes, began)


def require_nothing(made: Cluster) -> None:
    """Fail if an earlier bench has left this cluster: it would be measured as a new one."""
    if made.stack.resources():
        raise LabError(f"the cluster {made.name} is there already: `make lab-down` removes it")


def until_ready(listed: str, nodes: int, began: datetime, release: str = "") -> float:
    """Seconds until the last of these nodes, kubectl's list, was Ready.

    Raises:
        AssertionError: there are fewer or more nodes, one is not Ready, or is of another release.
    """
    items = json.loads(listed)["items"]
    ready = {node["metadata"]["name"]: is_ready(node) for node in items}
    if len(ready) != nodes or not all(ready.values()):
        raise AssertionError(f"{nodes} nodes are not Ready: {ready}")
    releases = {node["status"]["nodeInfo"]["kubeletVersion"] for node in items}
    if release and releases != {release}:
        raise AssertionError(f"not all nodes are of {release}: {sorted(releases)}")
    since = max(
        datetime.fromisoformat(condition["lastTransitionTime"])
        for node in items
        for condition in node["status"]["conditions"]
        if condition["type"] == "Ready"
    )
    return (since - began).total_seconds()


def cilium(made: Cluster, file: Path) -> None:
    """Write this cluster's manifests of Cilium: the lower bound needs the same pod network."""
    kubernetes = [
        resource["inputs"]
        for resource in made.stack.resources(secrets=True)
        if resource["type"].startswith("kubernetes:") and "-addons-cilium:" in resource["urn"]
    ]
    file.write_text(yaml.safe_dump_all(kubernetes))
