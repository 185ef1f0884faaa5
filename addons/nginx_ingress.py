"""The NGINX project's own ingress controller: Ingress, and its own VirtualServers."""

from typing import Any

import versions
from addons.chart import Chart
from addons.way_in import WayIn

CHART = Chart(
    name="nginx-ingress",
    version=versions.NGINX_INGRESS_CHART,
    repository="https://helm.nginx.com/stable",
)
# The chart says so of its pods when it is installed under its own name.
_LABELS = {"app.kubernetes.io/name": CHART.name, "app.kubernetes.io/instance": CHART.name}


def values(way_in: WayIn) -> dict[str, Any]:
    """How requests come in."""
    ports = {
        name: {} if way_in.octavia else {"nodePort": port}
        for name, port in zip(("httpPort", "httpsPort"), way_in.node_ports, strict=True)
    }
    return {
        "controller": {
            "replicaCount": way_in.replicas,
            "podDisruptionBudget": {"enabled": way_in.replicas > 1, "maxUnavailable": 1},
            "topologySpreadConstraints": way_in.spread(_LABELS),
            "ingressClass": {"setAsDefaultIngress": way_in.default_class},
            "telemetryReporting": {"enable": False},
            "config": {
                "entries": {
                    "proxy-protocol": "True",
                    "real-ip-header": "proxy_protocol",
                    "set-real-ip-from": ",".join(way_in.trusted_cidrs),
                }
            },
            "service": {
                "type": "LoadBalancer" if way_in.octavia else "NodePort",
                # The gateways come in on control planes, where no pod of it runs.
                "externalTrafficPolicy": "Cluster",
                "annotations": way_in.annotations,
                **ports,
            },
        },
        "prometheus": {
            "create": way_in.monitored,
            "service": {"create": way_in.monitored},
            "serviceMonitor": {"create": way_in.monitored},
        },
    }
