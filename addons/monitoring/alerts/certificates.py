"""An alert about the certificates of the control planes."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Written by userdata/control-plane/certificates.sh for node-exporter.
EXPIRY_METRIC = "openstack_kubernetes_certificate_expiry_timestamp_seconds"


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return an alert for certificates that should have been renewed long ago."""
    # They are renewed when a third of their life is left.
    late = targets.certificate_seconds // 6
    return [
        Alert(
            name="CertificateExpires",
            expression=f"{EXPIRY_METRIC} - time() < {late}",
            lasting="15m",
            severity="critical",
            summary="{{ $labels.certificate }} on {{ $labels.instance }} was not renewed and "
            "expires in {{ $value | humanizeDuration }}.",
            action="Run journalctl -u openstack-kubernetes-certificates on that control plane to "
            "see why. See 'Certificates' in docs/operations.md.",
        )
    ]
