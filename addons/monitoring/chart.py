"""Prometheus, Alertmanager and Grafana, with the dashboards and alerts of a Kubernetes cluster."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_tls as tls

import versions
from addons import crds, logging
from addons.chart import Chart
from addons.install import Installer
from addons.monitoring import alerts, dashboards, scrape_configs
from addons.monitoring.targets import MonitoringTargets
from config.models.addons import Logging, Monitoring

CHART = Chart(
    name="kube-prometheus-stack",
    version=versions.KUBE_PROMETHEUS_STACK_CHART,
    repository="https://prometheus-community.github.io/helm-charts",
)
NAMESPACE = "monitoring"
PROMETHEUS_URL = f"http://{CHART.name}-prometheus.{NAMESPACE}:9090"
ALERTMANAGER_SECRET = "alertmanager-config"  # noqa: S105 - its name
GRAFANA_SECRET = "grafana-admin"  # noqa: S105 - its name

# What Grafana's sidecars find dashboards and data sources by.
_DASHBOARD = {"grafana_dashboard": "1"}
_DATA_SOURCE = {"grafana_datasource": "1"}
# The chart's objects are made side by side, and an operator that starts before one of its kinds
# is there never looks for that kind again.
_KINDS = (
    "alertmanagerconfigs",
    "alertmanagers",
    "podmonitors",
    "probes",
    "prometheusagents",
    "prometheuses",
    "prometheusrules",
    "scrapeconfigs",
    "servicemonitors",
    "thanosrulers",
)
AFTER_ITS_KINDS = {
    "config.kubernetes.io/depends-on": ",".join(
        f"apiextensions.k8s.io/CustomResourceDefinition/{kind}.monitoring.coreos.com"
        for kind in _KINDS
    )
}
_MEBIBYTES = {"Mi": 1, "Gi": 1024, "Ti": 1024**2}
_NOT_THE_NODES = "^/(dev|proc|run|sys|var/lib/kubelet)($|/)"
# Where scripts of the nodes leave numbers for node-exporter (userdata/lib/lib.sh).
_NODE_METRICS = "/var/lib/openstack-kubernetes/metrics"
# Prometheus deletes the oldest metrics rather than fill its volume.
_FULL_PERCENT = 85


def values(
    settings: Monitoring, *, image_registry: str | None, logs: Logging | None = None
) -> dict[str, Any]:
    """Everything in the cluster is targets, whoever installed it; metrics are kept on a volume.

    Args:
        settings: what the user wants different.
        image_registry: a mirror of every image.
        logs: what Grafana is to show, too.
    """
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
        "defaultRules": {
            "rules": dict.fromkeys(alerts.REPLACED_GROUPS, False),
            "disabled": dict.fromkeys(alerts.REPLACED_ALERTS, True),
        },
        # The chart would draw a password at each rendering until it finds the one it drew first.
        "grafana": {
            "admin": {"existingSecret": GRAFANA_SECRET},
            "plugins": [] if logs is None else [logging.grafana_plugin(logs)],
        },
        # Nodes by name, as the gateways are, instead of address and port.
        "prometheus-node-exporter": {
            # In the place of the chart's own list: what is mounted for pods is theirs to watch.
            "extraArgs": [
                f"--collector.filesystem.mount-points-exclude={_NOT_THE_NODES}",
                f"--collector.textfile.directory=/host/root{_NODE_METRICS}",
            ],
            "prometheus": {
                "monitor": {
                    "relabelings": [
                        {
                            "sourceLabels": ["__meta_kubernetes_pod_node_name"],
                            "targetLabel": "instance",
                        }
                    ]
                }
            },
        },
        "prometheusOperator": {
            "annotations": AFTER_ITS_KINDS,
            # Its certificate is made by a Helm hook, and hooks do not run here.
            "admissionWebhooks": {"enabled": False},
            "tls": {"enabled": False},
        },
    }


def install(
    installer: Installer,
    settings: Monitoring,
    *,
    targets: MonitoringTargets,
    logs: Logging | None,
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install it, with the targets, alerts and dashboards of this cluster."""
    # node-exporter is in the host's namespaces.
    namespace = installer.namespace(NAMESPACE, security="privileged")
    secrets = [installer.secret(GRAFANA_SECRET, NAMESPACE, _grafana_login(installer), [namespace])]
    if settings.alertmanager is not None:
        # Receivers hold passwords and tokens. JSON is YAML.
        config = {"alertmanager.yaml": json.dumps(settings.alertmanager, indent=2)}
        secrets.append(
            installer.secret(
                ALERTMANAGER_SECRET, NAMESPACE, pulumi.Output.from_input(config), [namespace]
            )
        )
    chart = installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, image_registry=installer.settings.image_registry, logs=logs),
        overrides=settings.values,
        after=[*after, *secrets],
        transforms=[crds.without_descriptions],
    )
    # Kinds that come with the chart.
    for name, spec in scrape_configs.scrape_specs(targets).items():
        installer.custom(
            "monitoring.coreos.com/v1alpha1", "ScrapeConfig", name, NAMESPACE, spec, after=[chart]
        )
    installer.custom(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        "openstack-kubernetes",
        NAMESPACE,
        alerts.spec(targets),
        after=[chart],
    )
    for dashboard in dashboards.dashboards(targets):
        name = f"dashboard-{dashboard.name}"
        files = {f"openstack-kubernetes-{dashboard.name}.json": dashboard.text()}
        installer.config_map(name, NAMESPACE, files, labels=_DASHBOARD, after=[namespace])
    if logs is not None:
        files = {"victorialogs.yaml": logging.grafana_data_source()}
        installer.config_map(
            "datasource-logs", NAMESPACE, files, labels=_DATA_SOURCE, after=[namespace]
        )
    return chart


def _grafana_login(installer: Installer) -> pulumi.Output[dict[str, str]]:
    # Drawn from a generated key: the TLS provider has no plain random.
    key = tls.PrivateKey(
        f"{installer.name}-{GRAFANA_SECRET}",
        algorithm="ED25519",
        opts=pulumi.ResourceOptions(parent=installer.parent),
    )
    return key.private_key_pem.apply(
        lambda pem: {
            "admin-user": "admin",
            "admin-password": hashlib.sha256(pem.encode()).hexdigest()[:32],
        }
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
