"""Cilium: the pod network, with NetworkPolicy."""

from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import Installer
from config.models.addons import Cni

# The chart's objects are made side by side, and an agent that finds no configuration runs without
# one for ever: it reads it once, and takes its absence for an empty one.
AFTER_ITS_CONFIGURATION = {
    "config.kubernetes.io/depends-on": "/namespaces/kube-system/ConfigMap/cilium-config"
}

CHART = Chart(name="cilium", version=versions.CILIUM_CHART, repository="https://helm.cilium.io")


def values(*, control_planes: int, mtu: pulumi.Input[int]) -> dict[str, Any]:
    """What a Neutron network and a cluster of kubeadm need."""
    return {
        # Each node's part of podCidr, as the controller manager hands it out.
        "ipam": {"mode": "kubernetes"},
        "k8s": {"requireIPv4PodCIDR": True},
        # Neutron drops packets with pod addresses, so they travel in UDP from node to node.
        "routingMode": "tunnel",
        "tunnelProtocol": "vxlan",
        # That of the network below; Cilium takes its own overhead off.
        "MTU": mtu,
        "kubeProxyReplacement": "false",
        # Its certificates are new at each rendering: every preview would show a change.
        "hubble": {"enabled": False},
        # A change of the configuration takes effect at once, not at the next restart.
        "rollOutCiliumPods": True,
        "annotations": AFTER_ITS_CONFIGURATION,
        "operator": {
            "annotations": AFTER_ITS_CONFIGURATION,
            "rollOutPods": True,
            "replicas": min(2, control_planes),
            # A node has room for one: the old one must go first.
            "updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        },
    }


def install(
    installer: Installer, settings: Cni, *, control_planes: int, mtu: pulumi.Input[int]
) -> pulumi.Resource:
    """Install it, on every node and before anything that needs a pod network."""
    return installer.chart(
        CHART,
        namespace="kube-system",
        values=values(control_planes=control_planes, mtu=mtu),
        overrides=settings.values,
    )
