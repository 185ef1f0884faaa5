"""The monitoring add-on: Prometheus, Alertmanager and Grafana by kube-prometheus-stack."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_random as random

import versions
from addons import crds, logging
from addons.chart import Chart
from addons.installer import Installer
from addons.monitoring import alerts, dashboards, narrow_roles, scrape_configs
from addons.monitoring.targets import MonitoringTargets
from addons.scheduling import requests
from addons.volumes import FULL_PERCENT
from config import federation
from config.models.addons import Logging, Monitoring

CHART = Chart(
    name="kube-prometheus-stack",
    version=versions.KUBE_PROMETHEUS_STACK_CHART,
    repository="https://prometheus-community.github.io/helm-charts",
)
NAMESPACE = federation.NAMESPACE
PROMETHEUS_URL = f"http://{federation.SERVICE}.{NAMESPACE}:{federation.PORT}"
ALERTMANAGER_SECRET = "alertmanager-config"  # noqa: S105 - its name
GRAFANA_SECRET = "grafana-admin"  # noqa: S105 - its name

# The labels by which Grafana's sidecars find dashboards and data sources.
_DASHBOARD_LABELS = {"grafana_dashboard": "1"}
_DATA_SOURCE_LABELS = {"grafana_datasource": "1"}
# The API group of the operator's kinds.
_GROUP = "monitoring.coreos.com"
# The chart's objects are created in parallel, and an operator that starts before one of its kinds
# exists never looks for that kind again.
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
        f"apiextensions.k8s.io/CustomResourceDefinition/{kind}.{_GROUP}" for kind in _KINDS
    )
}
_MEBIBYTES = {"Mi": 1, "Gi": 1024, "Ti": 1024**2}
_ALERTMANAGER_SIZE = "1Gi"
# Where node scripts leave metrics for node-exporter (userdata/lib/lib.sh).
_NODE_METRICS = "/var/lib/openstack-kubernetes/metrics"
# The kubelet measures the volumes that are mounted for pods.
_EXCLUDED_MOUNTS = "^/(dev|proc|run|sys|var/lib/kubelet)($|/)"
_NODE_EXPORTER = {
    # Whatever taints the pools have.
    "tolerations": [{"operator": "Exists"}],
    # Replaces the arguments that the chart sets.
    "extraArgs": [
        f"--collector.filesystem.mount-points-exclude={_EXCLUDED_MOUNTS}",
        f"--collector.textfile.directory=/host/root{_NODE_METRICS}",
    ],
    "prometheus": {
        "monitor": {
            # Names nodes as the gateways are named, instead of by address and port.
            "relabelings": [
                {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"}
            ]
        }
    },
}


def values(
    settings: Monitoring, *, image_registry: str | None, logs: Logging | None = None
) -> dict[str, Any]:
    """Return values that monitor everything in the cluster, whoever installed it.

    Args:
        settings: what the user wants to be different.
        image_registry: a mirror of every image.
        logs: the logs that Grafana shows; None if it shows none.
    """
    replaced = [*alerts.REPLACED_ALERTS, *([alerts.TARGET_DOWN] if settings.fleet else [])]
    alertmanager: dict[str, Any] = {
        "resources": requests(cpu="10m", memory="32Mi"),
        "storage": _volume(settings, _ALERTMANAGER_SIZE),
    }
    if settings.alertmanager is not None:
        alertmanager |= {"useExistingSecret": True, "configSecret": ALERTMANAGER_SECRET}
    return {
        # The operator takes its images from arguments and fields, not from containers.
        "global": {"imageRegistry": image_registry or ""},
        "prometheus": {"prometheusSpec": _prometheus(settings)},
        "alertmanager": {"alertmanagerSpec": alertmanager},
        "defaultRules": {
            "rules": dict.fromkeys(alerts.REPLACED_GROUPS, False),
            "disabled": dict.fromkeys(replaced, True),
        },
        "grafana": {
            "resources": requests(cpu="20m", memory="256Mi"),
            # The chart would generate another password at each rendering.
            "admin": {"existingSecret": GRAFANA_SECRET},
            "plugins": [] if logs is None else [logging.grafana_plugin(logs)],
            "sidecar": {kind: {"resource": "configmap"} for kind in ("dashboards", "datasources")},
        },
        # Whoever may list Secrets can read them.
        "kube-state-metrics": {"collectorsExclude": ["secrets"]},
        "prometheus-node-exporter": _NODE_EXPORTER,
        "prometheusOperator": {
            "annotations": AFTER_ITS_KINDS,
            # Its rights to run pods and to read Secrets end here.
            **{
                f"{kind}Namespaces": [NAMESPACE]
                for kind in (
                    "alertmanagerConfig",
                    "alertmanagerInstance",
                    "prometheusInstance",
                    "thanosRulerInstance",
                )
            },
            # A Helm hook would make its certificate, and hooks do not run here.
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
    admitted: Sequence[str],
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install the chart, with the scrape targets, alerts and dashboards of this cluster.

    Pods in the `admitted` namespaces may reach it.
    """
    # node-exporter runs in the host's namespaces.
    namespace = installer.namespace(
        NAMESPACE,
        after=after,
        security="privileged",
        admitted=admitted,
        # The volumes with the metrics would go with it.
        keep=True,
    )
    rights = narrow_roles.operator(installer, NAMESPACE, after=[namespace])
    chart = installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, image_registry=installer.settings.image_registry, logs=logs),
        overrides=settings.values,
        after=[*after, *_secrets(installer, settings, namespace), *rights],
        transforms=[crds.keep, crds.without_descriptions, narrow_roles.narrow],
    )
    _rules(installer, targets, chart)
    _dashboards(installer, targets, logs, namespace)
    return chart


def _prometheus(settings: Monitoring) -> dict[str, Any]:
    found_anywhere = {
        f"{kind}SelectorNilUsesHelmValues": False
        for kind in ("rule", "serviceMonitor", "podMonitor", "probe", "scrapeConfig")
    }
    return {
        **found_anywhere,
        "resources": requests(cpu="100m", memory="400Mi"),
        "retention": settings.retention,
        "retentionSize": _retention_size(settings.storage_size),
        "storageSpec": _volume(settings, settings.storage_size),
    }


def _secrets(
    installer: Installer, settings: Monitoring, namespace: pulumi.Resource
) -> list[pulumi.Resource]:
    texts = {GRAFANA_SECRET: _grafana_login(installer)}
    if settings.alertmanager is not None:
        # Receivers hold passwords and tokens. JSON is YAML.
        config = {"alertmanager.yaml": json.dumps(settings.alertmanager, indent=2)}
        texts[ALERTMANAGER_SECRET] = pulumi.Output.from_input(config)
    return [installer.secret(name, NAMESPACE, text, [namespace]) for name, text in texts.items()]


def _rules(installer: Installer, targets: MonitoringTargets, chart: pulumi.Resource) -> None:
    """Create what Prometheus reads, of kinds that come with the chart."""
    for name, spec in scrape_configs.scrape_specs(targets).items():
        installer.custom(f"{_GROUP}/v1alpha1", "ScrapeConfig", name, NAMESPACE, spec, after=[chart])
    rules = alerts.rule_spec(targets)
    installer.custom(
        f"{_GROUP}/v1", "PrometheusRule", "openstack-kubernetes", NAMESPACE, rules, after=[chart]
    )


def _dashboards(
    installer: Installer,
    targets: MonitoringTargets,
    logs: Logging | None,
    namespace: pulumi.Resource,
) -> None:
    """Create what Grafana's sidecars read."""
    for dashboard in dashboards.dashboards(targets):
        name = f"dashboard-{dashboard.name}"
        files = {f"{dashboard.uid}.json": dashboard.text()}
        installer.config_map(name, NAMESPACE, files, labels=_DASHBOARD_LABELS, after=[namespace])
    if logs is not None:
        files = {"victorialogs.yaml": logging.grafana_data_source()}
        installer.config_map(
            "datasource-logs", NAMESPACE, files, labels=_DATA_SOURCE_LABELS, after=[namespace]
        )


def _grafana_login(installer: Installer) -> pulumi.Output[dict[str, str]]:
    password = random.RandomBytes(
        f"{installer.name}-{GRAFANA_SECRET}",
        length=16,
        opts=pulumi.ResourceOptions(parent=installer.parent),
    )
    return password.hex.apply(lambda text: {"admin-user": "admin", "admin-password": text})


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
    # Prometheus means mebibytes by MB.
    return f"{int(number) * _MEBIBYTES[unit] * FULL_PERCENT // 100}MB"
