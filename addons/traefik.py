"""Traefik: Ingress and Gateway API."""

from typing import Any

import versions
from addons.chart import Chart
from addons.ingress_exposure import IngressExposure

CHART = Chart(
    name="traefik",
    version=versions.TRAEFIK_CHART,
    repository="https://traefik.github.io/charts",
)


def values(exposure: IngressExposure) -> dict[str, Any]:
    """How requests come in."""
    ingress: dict[str, Any] = {}
    gateway_api: dict[str, Any] = {"enabled": exposure.gateway_api}
    if not exposure.octavia:
        # A Service of type NodePort has no address that Ingresses and Gateways could copy.
        ingress["publishedService"] = {"enabled": False}
        ingress["ingressEndpoint"] = {"ip": exposure.address}
        gateway_api["statusAddress"] = {"ip": exposure.address, "service": {"enabled": False}}
    return {
        "deployment": {"replicas": exposure.replicas},
        "podDisruptionBudget": {"enabled": exposure.replicas > 1, "maxUnavailable": 1},
        "topologySpreadConstraints": exposure.spread({"app.kubernetes.io/name": "traefik"}),
        "global": {"checkNewVersion": False},
        "ingressClass": {"isDefaultClass": exposure.default_class},
        "providers": {"kubernetesIngress": ingress, "kubernetesGateway": gateway_api},
        "gateway": {
            "enabled": exposure.gateway_api,
            # Routes of every namespace, as with Ingresses.
            "listeners": {"web": {"namespacePolicy": {"from": "All"}}},
        },
        "gatewayClass": {"enabled": exposure.gateway_api},
        "service": {
            "spec": {"type": "LoadBalancer" if exposure.octavia else "NodePort"},
            "annotations": exposure.annotations,
        },
        "ports": {
            name: {
                "proxyProtocol": {"trustedIPs": list(exposure.trusted_cidrs)},
                **({} if exposure.octavia else {"nodePort": port}),
            }
            for name, port in zip(("web", "websecure"), exposure.node_ports, strict=True)
        },
        "metrics": {
            "prometheus": {
                "service": {"enabled": exposure.monitored},
                "serviceMonitor": {"enabled": exposure.monitored},
                # The operator is there; the chart cannot see that before the first update.
                "disableAPICheck": exposure.monitored,
            }
        },
    }
