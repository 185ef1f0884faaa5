"""Logs of pods and nodes: Fluent Bit on every node, VictoriaLogs to keep and search them."""

import json
from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons import fluent_bit
from addons.chart import Chart
from addons.install import Installer
from config.models.addons import Logging

CHART = Chart(
    name="victoria-logs-single",
    version=versions.VICTORIA_LOGS_CHART,
    repository="https://victoriametrics.github.io/helm-charts",
)
NAMESPACE = "logging"
_DATASOURCE = "victoriametrics-logs-datasource"
_HOST = f"{CHART.name}-server.{NAMESPACE}"
_PORT = 9428


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
        "url": f"http://{_HOST}:{_PORT}",
    }
    return json.dumps({"apiVersion": 1, "datasources": [source]}, indent=1)


def values(settings: Logging, *, monitored: bool) -> dict[str, Any]:
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
            "serviceMonitor": {"enabled": monitored},
        }
    }


def install(
    installer: Installer, settings: Logging, *, monitored: bool, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install both."""
    # The collector reads the hosts' log files.
    namespace = installer.namespace(NAMESPACE, security="privileged")
    server = installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, monitored=monitored),
        overrides=settings.values,
        after=[*after, namespace],
    )
    return installer.chart(
        fluent_bit.CHART,
        namespace=NAMESPACE,
        values=fluent_bit.values(host=_HOST, port=_PORT, monitored=monitored),
        overrides=settings.fluent_bit_values,
        after=[server],
    )
