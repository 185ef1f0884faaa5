"""The configuration of the lab's own cluster: ordinary keys, nothing that only the lab could set."""

from __future__ import annotations

from typing import Any

from lab.cloud.layout import EXTERNAL_CIDR, EXTERNAL_NETWORK
from lab.paths import CACHE

CHARTS = CACHE / "charts"

# A server here is a system container: it shares the machine's kernel, cgroups and modules.
KUBELET = {
    "failCgroupV1": False,
    "failSwapOn": False,
    # Every server sees the same disk, and images are preloaded: never collect them.
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "500Mi"},
}
KUBE_PROXY = {"conntrack": {"maxPerCore": 0}}
IGNORED_PREFLIGHT_ERRORS = [
    "SystemVerification",
    "FileContent--proc-sys-net-bridge-bridge-nf-call-iptables",
    "Swap",
    "NumCPU",
    "Mem",
]
CONTAINERD = {
    "lab.toml": "version = 3\n\n[plugins.'io.containerd.cri.v1.runtime']\n"
    "restrict_oom_score_adj = true\n"
}


def cluster(
    *, image: str, masters: int = 3, gateways: int = 2, workers: int = 2
) -> dict[str, Any]:
    """The stack's keys for a cluster of this size on the lab's cloud."""
    return {
        "image": image,
        "gatewayCount": gateways,
        "masterCount": masters,
        "workerCount": workers,
        "gateway": {"flavor": "small", "serverGroupPolicy": "soft-anti-affinity"},
        "controlPlane": {"flavor": "medium", "serverGroupPolicy": "soft-anti-affinity"},
        "worker": {"flavor": "medium"},
        "externalNetwork": EXTERNAL_NETWORK,
        "allowedCidrs": [EXTERNAL_CIDR],
        "kubelet": {"extraConfig": KUBELET},
        "kubeProxy": {"extraConfig": KUBE_PROXY},
        "kubeadm": {"ignorePreflightErrors": IGNORED_PREFLIGHT_ERRORS},
        "containerd": {"dropIns": CONTAINERD},
        "addons": {"chartDirectory": str(CHARTS)},
    }
