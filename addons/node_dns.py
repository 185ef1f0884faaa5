"""A pod's way to the CoreDNS on its own node, which the control planes' script runs everywhere."""

from collections.abc import Sequence
from typing import Any

import pulumi

from addons.installer import Installer

NAME = "node-dns"
NAMESPACE = "kube-system"


def redirect() -> dict[str, Any]:
    """Lead pods that ask the Service to a ready pod of their node; without one, to any.

    Cilium has its own proxy for pods, which does not know `trafficDistribution`.
    """
    return {
        "redirectFrontend": {"serviceMatcher": {"serviceName": "kube-dns", "namespace": NAMESPACE}},
        "redirectBackend": {
            "localEndpointSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
            # By the names of the Service's ports.
            "toPorts": [
                {"name": "dns", "port": "53", "protocol": "UDP"},
                {"name": "dns-tcp", "port": "53", "protocol": "TCP"},
            ],
        },
    }


def install(installer: Installer, *, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
    """Install the redirection."""
    return installer.custom(
        "cilium.io/v2", "CiliumLocalRedirectPolicy", NAME, NAMESPACE, redirect(), after=after
    )
