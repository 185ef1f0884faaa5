"""Logs of all pods: a collector on every node, VictoriaLogs to keep and search them."""

import json
from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import Installer
from addons.settings import Logging

_REPOSITORY = "https://victoriametrics.github.io/helm-charts"
SERVER_CHART = Chart(
    name="victoria-logs-single", version=versions.VICTORIA_LOGS_CHART, repository=_REPOSITORY
)
COLLECTOR_CHART = Chart(
    name="victoria-logs-collector",
    version=versions.VICTORIA_LOGS_COLLECTOR_CHART,
    repository=_REPOSITORY,
)
NAMESPACE = "logging"
_DATASOURCE = "victoriametrics-logs-datasource"
SERVER_URL = f"http://{SERVER_CHART.name}-server.{NAMESPACE}:9428"


def grafana_plugin(settings: Logging) -> str:
    """The plugin that lets Grafana read them: name, version and, where it is not Grafana's, URL."""
    parts = [_DATASOURCE, versions.VICTORIA_LOGS_DATASOURCE]
    if settings.grafana_plugin_url is not None:
        parts.append(settings.grafana_plugin_url)
    return "@".join(parts)


def grafana_data_source() -> str:
    """The file that tells Grafana where they are. JSON is YAML."""
    source = {
        "name": "VictoriaLogs",
        "uid": "victorialogs",
        "type": _DATASOURCE,
        "access": "proxy",
        "url": SERVER_URL,
    }
    return json.dumps({"apiVersion": 1, "datasources": [source]}, indent=1)


def server_values(settings: Logging) -> dict[str, Any]:
    """How long and where logs are kept."""
    volume: dict[str, Any] = {"enabled": True, "size": settings.storage_size}
    if settings.storage_class is not None:
        volume["storageClassName"] = settings.storage_class
    return {
        "server": {
            "retentionPeriod": settings.retention,
            # It deletes the oldest logs rather than fill its volume.
            "retentionMaxDiskUsagePercent": 85,
            "persistentVolume": volume,
        }
    }


def collector_values() -> dict[str, Any]:
    """Every node, control planes too."""
    return {
        "remoteWrite": [{"url": SERVER_URL}],
        "tolerations": [{"operator": "Exists"}],
    }


def install(
    installer: Installer, settings: Logging, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install both."""
    # The collector reads the hosts' log files.
    namespace = installer.namespace(NAMESPACE, security="privileged")
    server = installer.chart(
        SERVER_CHART,
        namespace=NAMESPACE,
        values=server_values(settings),
        overrides=settings.values,
        after=[*after, namespace],
    )
    return installer.chart(
        COLLECTOR_CHART,
        namespace=NAMESPACE,
        values=collector_values(),
        overrides=settings.collector_values,
        after=[server],
    )
