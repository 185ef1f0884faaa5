"""Traefik: Ingress and Gateway API."""

from typing import Any

import versions
from addons.chart import Chart
from addons.way_in import WayIn

CHART = Chart(
    name="traefik",
    version=versions.TRAEFIK_CHART,
    repository="https://traefik.github.io/charts",
)


def values(way_in: WayIn) -> dict[str, Any]:
    """How requests come in."""
    ingress: dict[str, Any] = {}
    gateway_api: dict[str, Any] = {"enabled": way_in.gateway_api}
    if not way_in.octavia:
        # A Service of type NodePort has no address that Ingresses and Gateways could copy.
        ingress["publishedService"] = {"enabled": False}
        ingress["ingressEndpoint"] = {"ip": way_in.address}
        gateway_api["statusAddress"] = {"ip": way_in.address, "service": {"enabled": False}}
    return {
        "deployment": {"replicas": way_in.replicas},
        "podDisruptionBudget": {"enabled": way_in.replicas > 1, "maxUnavailable": 1},
        "topologySpreadConstraints": way_in.spread({"app.kubernetes.io/name": "traefik"}),
        "global": {"checkNewVersion": False},
        "ingressClass": {"isDefaultClass": way_in.default_class},
        "providers": {"kubernetesIngress": ingress, "kubernetesGateway": gateway_api},
        "gateway": {
            "enabled": way_in.gateway_api,
            # Routes of every namespace, as with Ingresses.
            "listeners": {"web": {"namespacePolicy": {"from": "All"}}},
        },
        "gatewayClass": {"enabled": way_in.gateway_api},
        "service": {
            "spec": {"type": "LoadBalancer" if way_in.octavia else "NodePort"},
            "annotations": way_in.annotations,
        },
        "ports": {
            name: {
                "proxyProtocol": {"trustedIPs": list(way_in.trusted_cidrs)},
                **({} if way_in.octavia else {"nodePort": port}),
            }
            for name, port in zip(("web", "websecure"), way_in.node_ports, strict=True)
        },
        "metrics": {
            "prometheus": {
                "service": {"enabled": way_in.monitored},
                "serviceMonitor": {"enabled": way_in.monitored},
                # The operator is there; the chart cannot see that before the first update.
                "disableAPICheck": way_in.monitored,
            }
        },
    }
