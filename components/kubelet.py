"""The configuration of the kubelets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config import shutdown
from config.merge import merge

# For the kubelet and containerd as Kubespray has it (kube_memory_reserved and the others), for the
# rest of the system a little more than an idle node of the lab uses (62 to 211 MiB). Together they
# are what GKE keeps of a machine with 2 GiB, so small machines have room for pods.
_KUBE_RESERVED = {"cpu": "100m", "memory": "256Mi", "pid": "1000"}
_SYSTEM_RESERVED = {"cpu": "100m", "memory": "256Mi", "pid": "1000"}

# The kubelet's own defaults. It has none of them any more when a configuration sets one.
_EVICTION_HARD = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


def kubelet_configuration(over: Mapping[str, Any]) -> dict[str, Any]:
    """The KubeletConfiguration of every node, with `over` laid on it."""
    return merge(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "systemd",
            "rotateCertificates": True,
            "serverTLSBootstrap": True,
            "seccompDefault": True,
            **shutdown.defaults(over),
            "kubeReserved": _KUBE_RESERVED,
            "systemReserved": _SYSTEM_RESERVED,
            "evictionHard": _EVICTION_HARD,
        },
        over,
    )
