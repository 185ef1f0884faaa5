"""Alerts about the certificates of the control planes."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Written by userdata/control-plane/certificates.sh for node-exporter.
EXPIRY_METRIC = "openstack_kubernetes_certificate_expiry_timestamp_seconds"


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return alerts for certificates that were not renewed, or of which nothing is known."""
    # They are renewed when a third of their life is left. A kubelet renews its own later, and the
    # chart has an alert for that.
    late = targets.certificate_seconds // 6
    renewed = f'{EXPIRY_METRIC}{{certificate!~"/var/lib/kubelet/.*"}}'
    return [
        Alert(
            name="CertificateExpires",
            expression=f"{renewed} - time() < {late}",
            lasting="15m",
            severity="critical",
            summary="{{ $labels.certificate }} on {{ $labels.instance }} was not renewed and "
            "expires in {{ $value | humanizeDuration }}.",
            action="Run journalctl -u openstack-kubernetes-certificates on that control plane to "
            "see why. See 'Certificates' in docs/operations.md.",
        ),
        Alert(
            name="CertificateExpiryUnknown",
            expression=f"count(count by (instance) ({EXPIRY_METRIC})) < "
            f"{targets.control_plane_count} or absent({EXPIRY_METRIC})",
            # Longer than between two runs of the timer that writes it.
            lasting="2h",
            severity="warning",
            summary="A control plane does not tell when its certificates expire.",
            action="Run systemctl status openstack-kubernetes-certificates.timer on the control "
            "planes. See 'Certificates' in docs/operations.md.",
        ),
    ]
