"""Health of a cluster after an upgrade: its API, its nodes, Kubernetes' own pods, the add-ons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import httpx

from commands.fleet.clusters import is_ready, trouble
from commands.kubernetes_api import Administrator, KubeconfigError
from commands.waiting import until_empty

# Seconds for pods that were moved last to be Ready.
PATIENCE = 300

# The kinds of workloads: where the number of wanted pods is, and that of Ready ones in `status`.
_WORKLOADS = {
    "deployment": (("spec", "replicas"), "readyReplicas"),
    "statefulset": (("spec", "replicas"), "readyReplicas"),
    "daemonset": (("status", "desiredNumberScheduled"), "numberReady"),
}
# Of the static pods that kubeadm makes.
_CONTROL_PLANE = "/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane"


def settled_faults(
    outputs: Mapping[str, Any], namespaces: Collection[str], version: str
) -> list[str]:
    """The faults that are left when the cluster has had time to become healthy."""
    return until_empty(lambda: faults(outputs, namespaces, version), PATIENCE, pause=5)


def faults(outputs: Mapping[str, Any], namespaces: Collection[str], version: str) -> list[str]:
    """All that keeps a cluster from being healthy at this version, a line each.

    Args:
        outputs: those of its stack.
        namespaces: where the workloads must be Ready; users' own are left alone.
        version: Kubernetes' version, which every node must have.
    """
    try:
        with Administrator.of(outputs["kubeconfig"]).client() as api:
            api.get("/readyz").raise_for_status()
            expected = [each["name"] for each in outputs["nodes"]]
            return [
                *_nodes(_items(api, "/api/v1/nodes"), expected, version),
                *_static_pods(_items(api, _CONTROL_PLANE)),
                *_workloads(api, namespaces),
            ]
    except (httpx.HTTPError, KubeconfigError) as error:
        return [trouble(error)]


def _items(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(path).raise_for_status().json()["items"]
    return found


def _nodes(
    nodes: Collection[Mapping[str, Any]], expected: Collection[str], version: str
) -> Iterator[str]:
    by_name = {node["metadata"]["name"]: node for node in nodes}
    for name in expected:
        if name not in by_name:
            yield f"the node {name} is missing"
    for name, node in by_name.items():
        if not is_ready(node):
            yield f"the node {name} is not Ready"
        if (runs := node["status"]["nodeInfo"]["kubeletVersion"]) != version:
            yield f"the node {name} runs {runs}"


def _static_pods(pods: Collection[Mapping[str, Any]]) -> Iterator[str]:
    for pod in pods:
        if not is_ready(pod):
            yield f"the pod {pod['metadata']['name']} is not Ready"


def _workloads(api: httpx.Client, namespaces: Collection[str]) -> Iterator[str]:
    for kind, ((part, wanted), ready) in _WORKLOADS.items():
        for each in _items(api, f"/apis/apps/v1/{kind}s"):
            namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
            # The API leaves out what is 0.
            missing = each[part][wanted] - each["status"].get(ready, 0)
            if namespace in namespaces and missing > 0:
                yield f"{kind} {namespace}/{name}: {missing} of its pods are not Ready"
