"""The ingress controller: Traefik, behind the gateways or behind Octavia."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import Installer
from addons.settings import Ingress

CHART = Chart(
    name="traefik",
    version=versions.TRAEFIK_CHART,
    repository="https://traefik.github.io/charts",
)
NAMESPACE = "ingress"


def values(
    settings: Ingress,
    *,
    node_ports: tuple[int, int],
    octavia: bool,
    trusted_cidrs: Sequence[str],
    monitored: bool,
) -> dict[str, Any]:
    """How requests come in.

    Args:
        settings: what the user wants different.
        node_ports: where the gateways send HTTP and HTTPS.
        octavia: whether a load balancer of the cloud takes the gateways' place.
        trusted_cidrs: who may say, by the PROXY protocol, from whom a connection is.
        monitored: whether there is a Prometheus operator.
    """
    return {
        "deployment": {"replicas": settings.replicas},
        "podDisruptionBudget": {"enabled": settings.replicas > 1, "maxUnavailable": 1},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "traefik"}},
            }
        ],
        "global": {"checkNewVersion": False},
        "ingressClass": {"isDefaultClass": settings.default_class},
        "providers": {"kubernetesGateway": {"enabled": settings.gateway_api}},
        "gateway": {"enabled": settings.gateway_api},
        "gatewayClass": {"enabled": settings.gateway_api},
        "service": {
            "spec": {"type": "LoadBalancer" if octavia else "NodePort"},
            "annotations": {"loadbalancer.openstack.org/proxy-protocol": "true"} if octavia else {},
        },
        "ports": {
            name: {
                "proxyProtocol": {"trustedIPs": list(trusted_cidrs)},
                **({} if octavia else {"nodePort": port}),
            }
            for name, port in zip(("web", "websecure"), node_ports, strict=True)
        },
        "metrics": {
            "prometheus": {
                "service": {"enabled": monitored},
                "serviceMonitor": {"enabled": monitored},
                # The operator is there; the chart cannot see that before the first update.
                "disableAPICheck": monitored,
            }
        },
    }


def install(
    installer: Installer,
    settings: Ingress,
    *,
    node_ports: tuple[int, int],
    trusted_cidrs: Sequence[str],
    monitored: bool,
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install it."""
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(
            settings,
            node_ports=node_ports,
            octavia=installer.settings.load_balancer == "octavia",
            trusted_cidrs=trusted_cidrs,
            monitored=monitored,
        ),
        overrides=settings.values,
        after=[*after, installer.namespace(NAMESPACE)],
    )
