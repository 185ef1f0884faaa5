"""The way requests reach an ingress controller, the same for every controller."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

NAMESPACE = "ingress"


@dataclass(frozen=True, kw_only=True)
class IngressExposure:
    """The facts that every ingress controller is configured with."""

    replicas: int
    # Whether Ingresses that name no class are served.
    default_class: bool
    gateway_api: bool
    # Whether a load balancer of the cloud takes the place of the gateways.
    octavia: bool
    # CIDRs that may reach it; the gateways have security groups for that.
    sources: Sequence[str]
    # Workers that any pod may run on.
    workers: int
    # The floating IP of the gateways, which an Ingress shows as its address.
    address: pulumi.Input[str]
    # Senders that may name the client of a connection, by the PROXY protocol.
    trusted_cidrs: Sequence[pulumi.Input[str]]
    # Whether the Prometheus operator is installed.
    monitored: bool

    @property
    def service_type(self) -> str:
        """Type of the Service."""
        return "LoadBalancer" if self.octavia else "NodePort"

    @property
    def load_balancer(self) -> dict[str, Any]:
        """Keys of the Service for a load balancer: without them, it lets in everyone."""
        return {"loadBalancerSourceRanges": list(self.sources)} if self.octavia else {}

    @property
    def disruption_budget(self) -> dict[str, Any]:
        """One pod at a time leaves; the only worker could not be drained with that."""
        return {"enabled": self.replicas > 1 and self.workers > 1, "maxUnavailable": 1}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the Service, by which Octavia passes the client's address on as well."""
        return {"loadbalancer.openstack.org/proxy-protocol": "true"} if self.octavia else {}
