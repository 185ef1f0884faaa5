"""Every alert of this cluster as one PrometheusRule."""

from collections.abc import Sequence
from typing import Any

from addons.monitoring.alerts import (
    certificates,
    etcd,
    etcd_backups,
    fleet,
    gateways,
    nodes,
    security_updates,
    stacks,
    volume_snapshots,
)
from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Alerts of the chart that ours replace: ours know how many etcd members there should be, and that
# 15 minutes are a long time for a node. The one about client certificates fires for every
# kubeconfig that is meant to be valid for some hours.
REPLACED_GROUPS = ("etcd",)
REPLACED_ALERTS = ("KubeNodeNotReady", "KubeClientCertificateExpiration")


def groups(targets: MonitoringTargets) -> dict[str, Sequence[Alert]]:
    """Return every alert, by the name of its group."""
    found = {
        "gateways": gateways.alerts(targets),
        "etcd": etcd.alerts(targets),
        "nodes": nodes.alerts(targets),
        "updates": security_updates.alerts(),
        "certificates": certificates.alerts(targets),
        "snapshots": volume_snapshots.alerts(targets),
        "backups": etcd_backups.alerts(targets),
        "fleet": fleet.alerts(targets),
        "stacks": stacks.alerts(targets),
    }
    return {name: alerts for name, alerts in found.items() if alerts}


def rule_spec(targets: MonitoringTargets) -> dict[str, Any]:
    """Return the `spec` of a PrometheusRule with all groups."""
    return {
        "groups": [
            {
                "name": f"openstack-kubernetes-{name}",
                "rules": [alert.document() for alert in alerts],
            }
            for name, alerts in groups(targets).items()
        ]
    }
