"""Placement of the pods of add-ons, and their number."""

from typing import Any

_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# Values of charts. The selector keeps pods on control planes, the tolerations let them run there.
CONTROL_PLANE_SELECTOR = {_CONTROL_PLANE: ""}
CONTROL_PLANE_TOLERATIONS = [{"key": _CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}]


def replicas_on_control_planes(control_plane_count: int) -> int:
    """Return two replicas, to survive the loss of a node, if they fit on different nodes."""
    return min(2, control_plane_count)


def requests(*, cpu: str, memory: str) -> dict[str, Any]:
    """Return resources of a container, as docs/tested.md has measured them.

    Without requests, pods are scheduled onto full nodes, and are the first to be evicted there.
    """
    return {"requests": {"cpu": cpu, "memory": memory}}


def spread(labels: dict[str, str]) -> list[dict[str, Any]]:
    """Return topology constraints by which the pods with these labels prefer separate nodes."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
    ]
