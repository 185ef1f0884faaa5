"""Alerts about nodes: readiness and overdue reboots."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Kured ignores this alert: it must not hold back the reboot that it reports.
REBOOT_OVERDUE = "NodeRebootOverdue"

_NODE_READY = 'kube_node_status_condition{job="kube-state-metrics",condition="Ready",status="true"}'


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return the alerts about nodes; the one about reboots only if something reboots them."""
    return [_not_ready(), *([_reboot_overdue()] if targets.reboots else [])]


def _not_ready() -> Alert:
    return Alert(
        name="NodeNotReady",
        expression=f"{_NODE_READY} == 0",
        lasting="5m",
        severity="warning",
        summary="Node {{ $labels.node }} is not Ready.",
        action="See 'A node does not come up' and 'Replace a machine' in docs/operations.md.",
    )


def _reboot_overdue() -> Alert:
    return Alert(
        name=REBOOT_OVERDUE,
        # Kured's pod may restart in the meantime.
        expression="max by (node) (max_over_time(kured_reboot_required[1h])) > 0",
        # A window may come once a week, and nodes reboot one at a time.
        lasting="8d",
        severity="warning",
        summary="Node {{ $labels.node }} has been waiting for its reboot for more than a week.",
        action="The log of the kured pod on that node (kubectl -n kured logs) names the alerts, "
        "or the drain, that it is waiting for.",
    )
