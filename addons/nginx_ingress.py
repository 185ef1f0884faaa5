"""The ingress controller of the NGINX project, for Ingress and its own VirtualServer."""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_tls as tls

import versions
from addons.chart import Chart
from addons.ingress_exposure import NAMESPACE, IngressExposure
from addons.installer import Installer
from addons.scheduling import spread
from config import ports

CHART = Chart(
    name="nginx-ingress",
    version=versions.NGINX_INGRESS_CHART,
    repository="https://helm.nginx.com/stable",
)
# The chart's labels of its pods when it is installed under its own name.
_LABELS = {"app.kubernetes.io/name": CHART.name, "app.kubernetes.io/instance": CHART.name}
_CERTIFICATE = "default-certificate"
_CERTIFICATE_HOURS = 10 * 365 * 24


def values(exposure: IngressExposure) -> dict[str, Any]:
    """Return values that fit the way requests come in."""
    node_ports = {
        name: {} if exposure.octavia else {"nodePort": node_port}
        for name, node_port in (
            ("httpPort", ports.INGRESS_HTTP),
            ("httpsPort", ports.INGRESS_HTTPS),
        )
    }
    entries: dict[str, Any] = {
        "proxy-protocol": "True",
        "real-ip-header": "proxy_protocol",
        "set-real-ip-from": pulumi.Output.all(*exposure.trusted_cidrs).apply(",".join),
    }
    if not exposure.octavia:
        # A Service of type NodePort has no address that Ingresses could copy.
        entries["external-status-address"] = exposure.address
    return {
        "controller": {
            "replicaCount": exposure.replicas,
            "podDisruptionBudget": exposure.disruption_budget,
            "topologySpreadConstraints": spread(_LABELS),
            "ingressClass": {"setAsDefaultIngress": exposure.default_class},
            "telemetryReporting": {"enable": False},
            "config": {"entries": entries},
            # For hosts without a certificate of their own; otherwise their connections are refused.
            "defaultTLS": {"secret": f"{NAMESPACE}/{_CERTIFICATE}"},
            "wildcardTLS": {"secret": f"{NAMESPACE}/{_CERTIFICATE}"},
            "service": {
                "type": exposure.service_type,
                # The gateways send requests to control planes, where none of its pods run.
                "externalTrafficPolicy": "Cluster",
                "annotations": exposure.annotations,
                **exposure.load_balancer,
                **node_ports,
            },
        },
        "prometheus": {
            "create": exposure.monitored,
            "service": {"create": exposure.monitored},
            "serviceMonitor": {"create": exposure.monitored},
        },
    }


def default_certificate(installer: Installer, after: Sequence[pulumi.Resource]) -> pulumi.Resource:
    """Create a self-signed certificate for hosts that have none, as Traefik does."""
    opts = pulumi.ResourceOptions(parent=installer.parent)
    name = f"{installer.name}-ingress-{_CERTIFICATE}"
    key = tls.PrivateKey(name, algorithm="ECDSA", ecdsa_curve="P256", opts=opts)
    certificate = tls.SelfSignedCert(
        name,
        private_key_pem=key.private_key_pem,
        subject=tls.SelfSignedCertSubjectArgs(common_name="nginx default certificate"),
        validity_period_hours=_CERTIFICATE_HOURS,
        allowed_uses=["digital_signature", "server_auth"],
        opts=opts,
    )
    texts = {"tls.crt": certificate.cert_pem, "tls.key": key.private_key_pem}
    return installer.secret(
        _CERTIFICATE, NAMESPACE, pulumi.Output.all(**texts), after, kind="kubernetes.io/tls"
    )
