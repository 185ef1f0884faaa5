"""Prometheus, Alertmanager and Grafana, with the dashboards and alerts of a Kubernetes cluster."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi
from pulumi_kubernetes.core.v1 import Secret
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

import versions
from addons.chart import Chart
from addons.install import Installer
from addons.settings import Monitoring

CHART = Chart(
    name="kube-prometheus-stack",
    version=versions.KUBE_PROMETHEUS_STACK_CHART,
    repository="https://prometheus-community.github.io/helm-charts",
)
NAMESPACE = "monitoring"
PROMETHEUS_URL = f"http://{CHART.name}-prometheus.{NAMESPACE}:9090"
ALERTMANAGER_SECRET = "alertmanager-config"  # noqa: S105 - its name

_MEBIBYTES = {"Mi": 1, "Gi": 1024, "Ti": 1024**2}
# Prometheus deletes the oldest metrics rather than fill its volume.
_FULL_PERCENT = 85


def values(settings: Monitoring, *, image_registry: str | None) -> dict[str, Any]:
    """Everything in the cluster is watched, whoever installed it; metrics are kept on a volume."""
    found_anywhere = {
        f"{kind}SelectorNilUsesHelmValues": False
        for kind in ("rule", "serviceMonitor", "podMonitor", "probe", "scrapeConfig")
    }
    alertmanager: dict[str, Any] = {"storage": _volume(settings, "1Gi")}
    if settings.alertmanager is not None:
        alertmanager |= {"useExistingSecret": True, "configSecret": ALERTMANAGER_SECRET}
    return {
        # The operator's own images are arguments and fields, not containers of a pod.
        "global": {"imageRegistry": image_registry or ""},
        "prometheus": {
            "prometheusSpec": {
                **found_anywhere,
                "retention": settings.retention,
                "retentionSize": _retention_size(settings.storage_size),
                "storageSpec": _volume(settings, settings.storage_size),
            }
        },
        "alertmanager": {"alertmanagerSpec": alertmanager},
        "prometheusOperator": {
            # Its certificate is made by a Helm hook, and hooks do not run here.
            "admissionWebhooks": {"enabled": False},
            "tls": {"enabled": False},
        },
    }


def install(
    installer: Installer, settings: Monitoring, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install it."""
    # node-exporter is in the host's namespaces.
    namespace = installer.namespace(NAMESPACE, security="privileged")
    first: list[pulumi.Resource] = [*after, namespace]
    if settings.alertmanager is not None:
        first.append(_alertmanager_secret(installer, settings.alertmanager, namespace))
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, image_registry=installer.settings.image_registry),
        overrides=settings.values,
        after=first,
    )


def _alertmanager_secret(
    installer: Installer, config: Mapping[str, Any], namespace: pulumi.Resource
) -> Secret:
    # Receivers hold passwords and tokens. JSON is YAML.
    encoded = base64.b64encode(json.dumps(config, indent=2).encode()).decode()
    return Secret(
        f"{installer.name}-{ALERTMANAGER_SECRET}",
        metadata=ObjectMetaArgs(name=ALERTMANAGER_SECRET, namespace=NAMESPACE),
        data=cast(
            "pulumi.Output[Mapping[str, str]]", pulumi.Output.secret({"alertmanager.yaml": encoded})
        ),
        opts=installer.options([namespace]),
    )


def _volume(settings: Monitoring, size: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if settings.storage_class is not None:
        spec["storageClassName"] = settings.storage_class
    return {"volumeClaimTemplate": {"spec": spec}}


def _retention_size(size: str) -> str:
    number, unit = re.fullmatch(r"(\d+)(\w+)", size).groups()  # type: ignore[union-attr]
    # Prometheus' MB are mebibytes.
    return f"{int(number) * _MEBIBYTES[unit] * _FULL_PERCENT // 100}MB"
