"""Headlamp, the Kubernetes dashboard, by `kubectl port-forward` or at a host name."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

import versions
from addons import ingress_exposure
from addons.chart import Chart
from addons.installer import Installer
from config.models.addons import Headlamp

CHART = Chart(
    name="headlamp",
    version=versions.HEADLAMP_CHART,
    repository="https://kubernetes-sigs.github.io/headlamp",
)
NAMESPACE = "headlamp"
OIDC_SECRET = "headlamp-oidc"  # noqa: S105 - its name
OIDC_CA = "headlamp-oidc-ca"
_CA_FILE = "ca.crt"
_CA_FOLDER = "/etc/headlamp-oidc"


@dataclass(frozen=True, kw_only=True)
class OidcLogin:
    """The OIDC client by which users log in, the one that the API server trusts."""

    issuer_url: str
    client_id: str
    # None for a public client, which proves itself by PKCE.
    client_secret: pulumi.Input[str] | None
    # Of the issuer, PEM; None for one that the system's list of CAs has.
    ca_certificate: str | None


def values(
    settings: Headlamp, login: OidcLogin | None, ingress_class: str | None
) -> dict[str, Any]:
    """Return values by which users have the rights of the token they log in with, and no more."""
    chosen: dict[str, Any] = {
        # The chart would make Headlamp itself an administrator.
        "clusterRoleBinding": {"create": False},
        # Otherwise the chart creates a Secret for values that are not set.
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
    if login is not None and login.ca_certificate is not None:
        chosen["config"]["extraArgs"] = [f"-oidc-ca-file={_CA_FOLDER}/{_CA_FILE}"]
        chosen["volumes"] = [{"name": OIDC_CA, "configMap": {"name": OIDC_CA}}]
        chosen["volumeMounts"] = [{"name": OIDC_CA, "mountPath": _CA_FOLDER, "readOnly": True}]
    if settings.host is not None:
        chosen["ingress"] = {
            "enabled": True,
            "annotations": {
                # A controller of the user's own may never report an address.
                "pulumi.com/skipAwait": "true",
                # NGINX passes on no WebSockets otherwise, by which lists and terminals are live.
                "nginx.org/websocket-services": CHART.name,
            },
            "hosts": [{"host": settings.host, "paths": [{"path": "/", "type": "Prefix"}]}],
            # Without a class, the cluster's default at the time of creation applies.
            **({} if ingress_class is None else {"ingressClassName": ingress_class}),
            # Without a Secret, the controller presents its default certificate.
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
    """Install Headlamp in its own namespace."""
    # An ingress controller of the user's own may be in any namespace.
    public = settings.host is not None and ingress_class is None
    namespace = installer.namespace(
        NAMESPACE, after=after, public=public, admitted=[ingress_exposure.NAMESPACE]
    )
    needed: list[pulumi.Resource] = [*after, namespace]
    chosen = values(settings, login, ingress_class)
    annotations: dict[str, pulumi.Input[str]] = {}
    if login is not None and login.ca_certificate is not None:
        files = {_CA_FILE: login.ca_certificate}
        needed.append(installer.config_map(OIDC_CA, NAMESPACE, files, after=[namespace]))
        annotations["checksum/oidc-ca"] = hashlib.sha256(login.ca_certificate.encode()).hexdigest()
    if login is not None and login.client_secret is not None:
        texts = pulumi.Output.all(
            OIDC_CLIENT_ID=login.client_id,
            OIDC_CLIENT_SECRET=login.client_secret,
            OIDC_ISSUER_URL=login.issuer_url,
            OIDC_SCOPES=_scopes(settings),
        )
        needed.append(installer.secret(OIDC_SECRET, NAMESPACE, texts, [namespace]))
        annotations["checksum/oidc"] = pulumi.Output.unsecret(texts.apply(_checksum))
    if annotations:
        # Headlamp reads both once.
        chosen["podAnnotations"] = annotations
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=chosen,
        overrides=settings.values,
        after=needed,
    )


def _checksum(texts: Mapping[str, str]) -> str:
    """A text that changes with the login, and from which no secret can be guessed."""
    login = json.dumps(texts, sort_keys=True).encode()
    return str(hashlib.scrypt(login, salt=b"", n=2**14, r=8, p=1).hex()[:16])


def _scopes(settings: Headlamp) -> str:
    return ",".join(settings.scopes)
