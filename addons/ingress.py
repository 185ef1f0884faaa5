"""The ingress controller, behind the gateways or behind Octavia."""

from collections.abc import Sequence

import pulumi

from addons import crds, nginx_ingress, traefik
from addons.chart import Chart
from addons.install import Installer
from addons.settings import Ingress
from addons.way_in import WayIn

NAMESPACE = "ingress"
_CONTROLLERS = {
    "traefik": (traefik.CHART, traefik.values),
    "nginx": (nginx_ingress.CHART, nginx_ingress.values),
}


def chart(settings: Ingress) -> Chart:
    """The chart of the controller that was chosen."""
    return _CONTROLLERS[settings.controller][0]


def way_in(
    settings: Ingress,
    *,
    node_ports: tuple[int, int],
    octavia: bool,
    trusted_cidrs: Sequence[str],
    monitored: bool,
) -> WayIn:
    """What the controller is told: what the user wants, and what the cluster is like."""
    return WayIn(
        replicas=settings.replicas,
        default_class=settings.default_class,
        gateway_api=settings.gateway_api,
        node_ports=node_ports,
        octavia=octavia,
        trusted_cidrs=trusted_cidrs,
        monitored=monitored,
    )


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
    source, values = _CONTROLLERS[settings.controller]
    told = way_in(
        settings,
        node_ports=node_ports,
        octavia=installer.settings.load_balancer == "octavia",
        trusted_cidrs=trusted_cidrs,
        monitored=monitored,
    )
    return installer.chart(
        source,
        namespace=NAMESPACE,
        values=values(told),
        overrides=settings.values,
        after=[*after, installer.namespace(NAMESPACE)],
        transforms=[crds.without_descriptions],
    )
