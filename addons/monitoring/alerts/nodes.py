"""Alerts about nodes: readiness, certificates and overdue reboots."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Kured ignores this alert: it must not hold back the reboot that it reports.
REBOOT_OVERDUE = "NodeRebootOverdue"

_NODE_READY = 'kube_node_status_condition{job="kube-state-metrics",condition="Ready",status="true"}'
# The API server's bucket that ends at 30 days, in every notation that Prometheus may use.
_30_DAYS = 'le=~"2592000|2592000\\\\.0|2\\\\.592e\\\\+06"'


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return the alerts about nodes; the one about reboots only if something reboots them."""
    return [_not_ready(), _certificate(), *([_reboot_overdue()] if targets.reboots else [])]


def _not_ready() -> Alert:
    return Alert(
        name="NodeNotReady",
        expression=f"{_NODE_READY} == 0",
        lasting="5m",
        severity="warning",
        summary="Node {{ $labels.node }} is not Ready.",
        action="See 'A node does not come up' and 'Replace a machine' in docs/operations.md.",
    )


def _certificate() -> Alert:
    return Alert(
        name="CertificateExpires",
        expression="sum(increase(apiserver_client_certificate_expiration_seconds_bucket"
        f'{{job="apiserver",{_30_DAYS}}}[1h])) > 0',
        # People use a kubeconfig that ends after hours, but not all day and night.
        lasting="1d",
        severity="warning",
        summary="A client of the API keeps using a certificate that expires within 30 days.",
        action="See 'Certificates' in docs/operations.md. If the client has the administrator's "
        "kubeconfig, run pulumi up and give it the new one.",
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
