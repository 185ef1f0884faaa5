"""Cilium, the pod network."""

from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.installer import Installer
from addons.scheduling import replicas_on_control_planes
from config.models.addons import Cni

# The chart's objects are created in parallel. An agent reads its configuration once, and one that
# finds none runs with an empty configuration forever.
AFTER_ITS_CONFIGURATION = {
    "config.kubernetes.io/depends-on": "/namespaces/kube-system/ConfigMap/cilium-config"
}

CHART = Chart(name="cilium", version=versions.CILIUM_CHART, repository="https://helm.cilium.io")


def values(*, control_plane_count: int, mtu: pulumi.Input[int], node_dns: bool) -> dict[str, Any]:
    """Return the values that a Neutron network and a kubeadm cluster need."""
    return {
        # The controller manager gives each node its part of podCidr.
        "ipam": {"mode": "kubernetes"},
        "k8s": {"requireIPv4PodCIDR": True},
        # Neutron drops packets with pod addresses, so they travel inside UDP.
        "routingMode": "tunnel",
        "tunnelProtocol": "vxlan",
        # The MTU of the machines' network; Cilium subtracts its own overhead.
        "MTU": mtu,
        "kubeProxyReplacement": "false",
        # Without that replacement host ports are the work of another plugin.
        "cni": {"chainingMode": "portmap"},
        # Leads a pod to the CoreDNS on its own node.
        "localRedirectPolicies": {"enabled": node_dns},
        # Each rendering makes new certificates: every preview would show a change.
        "hubble": {"enabled": False},
        # A changed configuration takes effect at once, not at the next restart.
        "rollOutCiliumPods": True,
        "annotations": AFTER_ITS_CONFIGURATION,
        "operator": {
            "annotations": AFTER_ITS_CONFIGURATION,
            "rollOutPods": True,
            "replicas": replicas_on_control_planes(control_plane_count),
            # A node has room for one replica: the old one must go first.
            "updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        },
    }


def install(
    installer: Installer,
    settings: Cni,
    *,
    control_plane_count: int,
    mtu: pulumi.Input[int],
    node_dns: bool,
) -> pulumi.Resource:
    """Install Cilium on every node, before anything that needs a pod network."""
    return installer.chart(
        CHART,
        namespace="kube-system",
        values=values(control_plane_count=control_plane_count, mtu=mtu, node_dns=node_dns),
        overrides=settings.values,
    )
