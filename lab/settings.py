"""The configuration of the lab's own cluster: ordinary keys, as any user could set them."""

from __future__ import annotations

from typing import Any

from lab.cloud.layout import EXTERNAL_CIDR, EXTERNAL_NETWORK
from lab.image.charts import CHARTS

# A server of the lab is a system container: it shares the machine's kernel, cgroups and modules.
KUBELET = {
    "failCgroupV1": False,
    "failSwapOn": False,
    # Every server sees the same disk, and images are preloaded: never delete them.
    "imageGCHighThresholdPercent": 100,
    "evictionHard": {
        "nodefs.available": "500Mi",
        "nodefs.inodesFree": "1%",
        "imagefs.available": "500Mi",
        "imagefs.inodesFree": "1%",
    },
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

# The chart's own capabilities without those that the lab's containers cannot have (SYS_RESOURCE,
# SYS_MODULE).
CILIUM = {
    "image": {"useDigest": False},
    "operator": {"image": {"useDigest": False}},
    "envoy": {"enabled": False},
    "l7Proxy": False,
    "securityContext": {
        "capabilities": {
            "ciliumAgent": [
                "CHOWN",
                "KILL",
                "NET_ADMIN",
                "NET_RAW",
                "IPC_LOCK",
                "SYS_ADMIN",
                "DAC_OVERRIDE",
                "FOWNER",
                "SETGID",
                "SETUID",
                "SYSLOG",
            ],
            "cleanCiliumState": ["NET_ADMIN", "SYS_ADMIN"],
        }
    },
}


def cluster(
    *, image: str, control_planes: int = 3, gateways: int = 2, workers: int = 2
) -> dict[str, Any]:
    """The stack's keys for a cluster of this size on the lab's cloud."""
    return {
        "image": image,
        "gatewayCount": gateways,
        "controlPlaneCount": control_planes,
        "workerCount": workers,
        "gateway": {"flavor": "lab.1c1g", "serverGroupPolicy": "soft-anti-affinity"},
        "controlPlane": {"flavor": "lab.2c3g", "serverGroupPolicy": "soft-anti-affinity"},
        "worker": {"flavor": "lab.2c3g"},
        "externalNetwork": EXTERNAL_NETWORK,
        "allowedCidrs": [EXTERNAL_CIDR],
        "kubelet": {"extraConfig": KUBELET},
        "kubeProxy": {"extraConfig": KUBE_PROXY},
        "kubeadm": {"ignorePreflightErrors": IGNORED_PREFLIGHT_ERRORS},
        "containerd": {"dropIns": CONTAINERD},
        # Clusters of the lab are made to be destroyed.
        "deletionProtection": False,
        "addons": {
            "chartDirectory": str(CHARTS),
            "cni": {"values": CILIUM},
            # The availability zones of Nova and Cinder have different names in the lab.
            "cinderCsi": {"cloudConfig": {"BlockStorage": {"ignore-volume-az": "true"}}},
        },
    }
