"""Logs of pods and nodes, collected by Fluent Bit and kept by VictoriaLogs."""

import json
from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons import fluent_bit
from addons.chart import Chart
from addons.installer import Installer
from addons.scheduling import requests
from addons.volumes import FULL_PERCENT
from config import federation
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
    """Return the Grafana plugin for these logs: `name@version`, and `@URL` if that is set."""
    parts = [_DATASOURCE, versions.VICTORIA_LOGS_DATASOURCE]
    if settings.grafana_plugin_url is not None:
        parts.append(settings.grafana_plugin_url)
    return "@".join(parts)


def grafana_data_source() -> str:
    """Return the file that tells Grafana where the logs are. JSON is YAML."""
    source = {
        "name": "VictoriaLogs",
        "uid": "victorialogs",
        "type": _DATASOURCE,
        "access": "proxy",
        "url": f"http://{_HOST}:{_PORT}",
    }
    return json.dumps({"apiVersion": 1, "datasources": [source]}, indent=1)


def values(settings: Logging, *, monitored: bool) -> dict[str, Any]:
    """Return values that say for how long and where logs are kept."""
    volume: dict[str, Any] = {"enabled": True, "size": settings.storage_size}
    if settings.storage_class is not None:
        volume["storageClassName"] = settings.storage_class
    return {
        "server": {
            "retentionPeriod": settings.retention,
            "resources": requests(cpu="20m", memory="64Mi"),
            "retentionMaxDiskUsagePercent": FULL_PERCENT,
            "persistentVolume": volume,
            "serviceMonitor": {"enabled": monitored},
        }
    }


def install(
    installer: Installer, settings: Logging, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install the server, then the collectors."""
    # The collectors read log files of the host.
    namespace = installer.namespace(
        NAMESPACE,
        after=after,
        security="privileged",
        admitted=[federation.NAMESPACE],
        # The volume with the logs would go with it.
        keep=True,
    )
    server = installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, monitored=installer.monitored),
        overrides=settings.values,
        after=[*after, namespace],
    )
    return installer.chart(
        fluent_bit.CHART,
        namespace=NAMESPACE,
        values=fluent_bit.values(host=_HOST, port=_PORT, monitored=installer.monitored),
        overrides=settings.fluent_bit_values,
        after=[server],
    )
