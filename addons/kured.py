"""Kured, which reboots nodes whose updates need it, one at a time in a maintenance window."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons.chart import Chart
from addons.installer import Installer
from addons.monitoring import PROMETHEUS_URL
from addons.monitoring.alerts import (
    FLEET_ALERTS,
    GATEWAY_REBOOT_OVERDUE,
    REBOOT_OVERDUE,
    STACK_FAILING,
    UPDATES_LATE,
)
from config import federation, ports
from config.models.addons import Kured

CHART = Chart(
    name="kured",
    version=versions.KURED_CHART,
    repository="https://kubereboot.github.io/charts",
)
NAMESPACE = "kured"
# Alerts that hold no reboot back. Except for ours, they fire in healthy clusters, some of them for
# weeks, or last until someone deletes an object: a failed job, an evicted pod. KubePodNotReady does
# not tell that from a pending one, but those of Deployments and the like have alerts of their own.
_IGNORED_ALERTS = (
    REBOOT_OVERDUE,
    GATEWAY_REBOOT_OVERDUE,
    UPDATES_LATE,
    *FLEET_ALERTS,
    STACK_FAILING,
    "Watchdog",
    "InfoInhibitor",
    "CPUThrottlingHigh",
    "KubeCPUOvercommit",
    "KubeCPUQuotaOvercommit",
    "KubeHpaMaxedOut",
    "KubeJobFailed",
    "KubeMemoryOvercommit",
    "KubeMemoryQuotaOvercommit",
    "KubeNodeEviction",
    "KubeNodePressure",
    "KubePodNotReady",
    "KubeQuotaAlmostFull",
    "KubeQuotaExceeded",
    "KubeQuotaFullyUsed",
    "KubeletTooManyPods",
    "NodeCPUHighUsage",
)


# What a machine's own updates hold while they run (userdata/install/updates.sh).
_UPDATES_LOCK = "/run/lock/openstack-kubernetes-updates"
_CURL = "--silent --fail --output /dev/null --max-time 5 --cacert /etc/kubernetes/pki/ca.crt"


def _sentinel(control_planes: Sequence[str]) -> str:
    """Return a command that is true on a node that needs a reboot, if the cluster can spare it.

    Kured runs it on the host, before it takes its lock. A package may ask for a reboot while dpkg
    is still at work.
    """
    ready = f"curl {_CURL} https://$address:{ports.API}/readyz"
    return (
        f"sh -c 'test -f /var/run/reboot-required && flock -n {_UPDATES_LOCK} true && "
        f"for address in {' '.join(control_planes)}; do {ready} || exit 1; done'"
    )


def values(settings: Kured, *, control_planes: Sequence[str], monitored: bool) -> dict[str, Any]:
    """Return values with the maintenance window and, with monitoring, the alerts to wait for.

    With or without it, a node reboots only while every control plane is ready.

    Args:
        settings: those of the user.
        control_planes: their addresses.
        monitored: whether Prometheus runs in the cluster.
    """
    configuration: dict[str, Any] = {
        "rebootDays": list(settings.days),
        "startTime": settings.start_time,
        "endTime": settings.end_time,
        "timeZone": settings.time_zone,
        "concurrency": 1,
        "rebootSentinelCommand": _sentinel(control_planes),
        # By default the chart looks for a file of the host, and leaves the command out.
        "useRebootSentinelHostPath": False,
        # A drain that gets stuck must not hold the lock forever.
        "drainTimeout": "30m",
        "annotateNodes": True,
    }
    if monitored:
        configuration |= {
            "prometheusUrl": PROMETHEUS_URL,
            "alertFilterRegexp": f"^({'|'.join(_IGNORED_ALERTS)})$",
            "alertFiringOnly": True,
        }
    return {
        "configuration": configuration,
        # Whatever taints the pools have.
        "tolerations": [{"operator": "Exists"}],
        "metrics": {"create": monitored},
        "service": {"create": monitored},
    }


def install(
    installer: Installer,
    settings: Kured,
    *,
    control_planes: Sequence[str],
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install kured in its own namespace."""
    # Kured reboots the host from a privileged container.
    namespace = installer.namespace(
        NAMESPACE, after=after, security="privileged", admitted=[federation.NAMESPACE]
    )
    return installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(settings, control_planes=control_planes, monitored=installer.monitored),
        overrides=settings.values,
        after=[*after, namespace],
    )
