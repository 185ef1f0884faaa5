"""Reboots of nodes whose updates need one, in a maintenance window, one node at a time."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.install import ON_CONTROL_PLANES_TOO, Installer
from addons.monitoring.alerts import REBOOT_OVERDUE
from config.models.addons import Kured

CHART = Chart(
    name="kured",
    version=versions.KURED_CHART,
    repository="https://kubereboot.github.io/charts",
)
NAMESPACE = "kured"
# Alerts of severity `none` and `info`: they fire in healthy clusters, some of them for weeks.
_HARMLESS = (
    REBOOT_OVERDUE,
    "Watchdog",
    "InfoInhibitor",
    "CPUThrottlingHigh",
    "KubeNodeEviction",
    "KubeNodePressure",
    "KubeQuotaAlmostFull",
    "KubeQuotaFullyUsed",
    "KubeletTooManyPods",
    "NodeCPUHighUsage",
)


def values(settings: Kured, *, prometheus_url: str | None) -> dict[str, Any]:
    """The window, and what else holds a reboot back."""
    configuration: dict[str, Any] = {
        "rebootDays": list(settings.days),
        "startTime": settings.start_time,
        "endTime": settings.end_time,
        "timeZone": settings.time_zone,
        "concurrency": 1,
        # A drain that gets stuck must not hold the lock for ever.
        "drainTimeout": "30m",
        "annotateNodes": True,
    }
    if prometheus_url is not None:
        configuration |= {
            "prometheusUrl": prometheus_url,
            "alertFilterRegexp": f"^({'|'.join(_HARMLESS)})$",
            "alertFiringOnly": True,
        }
    return {
        "configuration": configuration,
        "tolerations": ON_CONTROL_PLANES_TOO,
        "metrics": {"create": prometheus_url is not None},
        "service": {"create": prometheus_url is not None},
    }


def install(
    installer: Installer,
    settings: Kured,
    *,
    prometheus_url: str | None,
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install it."""
    # It reboots the host from a privileged container.
    namespace = installer.namespace(NAMESPACE, security="privileged")
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, prometheus_url=prometheus_url),
        overrides=settings.values,
        after=[*after, namespace],
    )
