"""How requests reach an ingress controller, whichever it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

NAMESPACE = "ingress"


@dataclass(frozen=True, kw_only=True)
class IngressExposure:
    """What every ingress controller is told."""

    replicas: int
    # Whether Ingresses that name no class are served.
    default_class: bool
    gateway_api: bool
    # Where the gateways send HTTP and HTTPS.
    node_ports: tuple[int, int]
    # Whether a load balancer of the cloud takes the gateways' place.
    octavia: bool
    # Where people reach the gateways: what an Ingress says its address is.
    address: pulumi.Input[str]
    # Who may say, by the PROXY protocol, from whom a connection is.
    trusted_cidrs: Sequence[str]
    # Whether there is a Prometheus operator.
    monitored: bool

    @property
    def annotations(self) -> dict[str, str]:
        """Of the Service: Octavia tells the client's address, too."""
        return {"loadbalancer.openstack.org/proxy-protocol": "true"} if self.octavia else {}

    def spread(self, labels: dict[str, str]) -> list[dict[str, Any]]:
        """The pods with these labels prefer nodes of their own."""
        return [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ]
