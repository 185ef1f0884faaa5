"""The ingress controller, behind the gateways or behind Octavia."""

from collections.abc import Sequence

import pulumi

from addons import crds, nginx_ingress, traefik
from addons.chart import Chart
from addons.ingress_exposure import NAMESPACE, IngressExposure
from addons.installer import Installer
from config.models.addons import Ingress

_CONTROLLERS = {
    "traefik": (traefik.CHART, traefik.values),
    "nginx": (nginx_ingress.CHART, nginx_ingress.values),
}


def chart(settings: Ingress) -> Chart:
    """Return the chart of the chosen controller."""
    return _CONTROLLERS[settings.controller][0]


def install(
    installer: Installer,
    settings: Ingress,
    *,
    address: pulumi.Input[str],
    trusted_cidrs: Sequence[pulumi.Input[str]],
    sources: Sequence[str],
    workers: int,
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install the chosen controller."""
    source, values = _CONTROLLERS[settings.controller]
    exposure = IngressExposure(
        replicas=settings.replicas,
        default_class=settings.default_class,
        gateway_api=settings.gateway_api,
        octavia=installer.settings.octavia,
        sources=sources,
        workers=workers,
        address=address,
        trusted_cidrs=trusted_cidrs,
        monitored=installer.monitored,
    )
    needed = [*after, installer.namespace(NAMESPACE, after=after, public=True)]
    if settings.controller == "nginx":
        needed.append(nginx_ingress.default_certificate(installer, needed))
    return installer.chart(
        source,
        namespace=NAMESPACE,
        values=values(exposure),
        overrides=settings.values,
        after=needed,
        transforms=[crds.keep, crds.without_descriptions],
    )
