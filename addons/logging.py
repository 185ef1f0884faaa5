"""Logs of all pods: a collector on every node, VictoriaLogs to keep and search them."""

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
SERVER_URL = f"http://{SERVER_CHART.name}-server.{NAMESPACE}:9428"


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
