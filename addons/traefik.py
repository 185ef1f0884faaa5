"""Traefik, an ingress controller for Ingress and Gateway API."""

from typing import Any

import versions
from addons.chart import Chart
from addons.ingress_exposure import IngressExposure
from addons.scheduling import requests, spread
from config import ports

CHART = Chart(
    name="traefik",
    version=versions.TRAEFIK_CHART,
    repository="https://traefik.github.io/charts",
)


def values(exposure: IngressExposure) -> dict[str, Any]:
    """Return values that fit the way requests come in."""
    ingress: dict[str, Any] = {}
    gateway_api: dict[str, Any] = {"enabled": exposure.gateway_api}
    if not exposure.octavia:
        # A Service of type NodePort has no address that Ingresses and Gateways could copy.
        ingress["publishedService"] = {"enabled": False}
        ingress["ingressEndpoint"] = {"ip": exposure.address}
        gateway_api["statusAddress"] = {"ip": exposure.address, "service": {"enabled": False}}
    return {
        "deployment": {"replicas": exposure.replicas},
        "resources": requests(cpu="20m", memory="64Mi"),
        "podDisruptionBudget": exposure.disruption_budget,
        "topologySpreadConstraints": spread({"app.kubernetes.io/name": "traefik"}),
        "global": {"checkNewVersion": False},
        "ingressClass": {"isDefaultClass": exposure.default_class},
        "providers": {"kubernetesIngress": ingress, "kubernetesGateway": gateway_api},
        "gateway": {
            "enabled": exposure.gateway_api,
            # Serves routes of every namespace, as with Ingresses.
            "listeners": {"web": {"port": ports.HTTP, "namespacePolicy": {"from": "All"}}},
        },
        "gatewayClass": {"enabled": exposure.gateway_api},
        "service": {
            "spec": {"type": exposure.service_type, **exposure.load_balancer},
            "annotations": exposure.annotations,
        },
        "ports": {
            name: {
                # In the pod as well: a Gateway's listener names the port that Traefik listens on.
                "port": port,
                "proxyProtocol": {"trustedIPs": list(exposure.trusted_cidrs)},
                **({} if exposure.octavia else {"nodePort": node_port}),
            }
            for name, port, node_port in (
                ("web", ports.HTTP, ports.INGRESS_HTTP),
                ("websecure", ports.HTTPS, ports.INGRESS_HTTPS),
            )
        },
        "metrics": {
            "prometheus": {
                "service": {"enabled": exposure.monitored},
                "serviceMonitor": {"enabled": exposure.monitored},
                # The operator is installed; the chart cannot see that before the first update.
                "disableAPICheck": exposure.monitored,
            }
        },
    }
