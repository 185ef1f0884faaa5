"""Headlamp, the dashboard: by `kubectl port-forward`, or at a host name of the ingress."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import Installer
from config.models.addons import Headlamp

CHART = Chart(
    name="headlamp",
    version=versions.HEADLAMP_CHART,
    repository="https://kubernetes-sigs.github.io/headlamp",
)
NAMESPACE = "headlamp"
OIDC_SECRET = "headlamp-oidc"  # noqa: S105 - its name


@dataclass(frozen=True, kw_only=True)
class OidcLogin:
    """The client by which users log in, the one that the API server trusts."""

    issuer_url: str
    client_id: str
    # None: a public client, which proves itself by PKCE.
    client_secret: pulumi.Input[str] | None


def values(
    settings: Headlamp, login: OidcLogin | None, ingress_class: str | None
) -> dict[str, Any]:
    """Users act with the rights of the token they log in with."""
    chosen: dict[str, Any] = {
        # The chart would make it an administrator.
        "clusterRoleBinding": {"create": False},
        # Else the chart makes a Secret for values that are not there.
        "config": {"oidc": {"secret": {"create": False}}},
    }
    if login is not None and login.client_secret is not None:
        chosen["config"]["oidc"]["externalSecret"] = {
            "enabled": True,
            "name": OIDC_SECRET,
            "hasScopes": True,
        }
    elif login is not None:
        chosen["config"]["oidc"] |= {
            "clientID": login.client_id,
            "issuerURL": login.issuer_url,
            "scopes": _scopes(settings),
            "usePKCE": True,
        }
    if settings.host is not None:
        chosen["ingress"] = {
            "enabled": True,
            # Somebody else's controller may never tell it its address.
            "annotations": {"pulumi.com/skipAwait": "true"},
            "hosts": [{"host": settings.host, "paths": [{"path": "/", "type": "Prefix"}]}],
            # None: that of the cluster's default at the time when it is made.
            **({} if ingress_class is None else {"ingressClassName": ingress_class}),
            # Without a Secret the controller shows its own certificate.
            "tls": [{"hosts": [settings.host]}],
        }
    return chosen


def install(
    installer: Installer,
    settings: Headlamp,
    *,
    login: OidcLogin | None,
    ingress_class: str | None,
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install it."""
    namespace = installer.namespace(NAMESPACE)
    needed: list[pulumi.Resource] = [*after, namespace]
    if login is not None and login.client_secret is not None:
        texts = pulumi.Output.all(
            OIDC_CLIENT_ID=login.client_id,
            OIDC_CLIENT_SECRET=login.client_secret,
            OIDC_ISSUER_URL=login.issuer_url,
            OIDC_SCOPES=_scopes(settings),
        )
        needed.append(installer.secret(OIDC_SECRET, NAMESPACE, texts, [namespace]))
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, login, ingress_class),
        overrides=settings.values,
        after=needed,
    )


def _scopes(settings: Headlamp) -> str:
    return ",".join(settings.scopes)
