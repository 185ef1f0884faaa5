"""The alert about machines that get no security updates."""

from addons.monitoring.alerts.alert import Alert

# Written by userdata/install/updates.sh for node-exporter.
UPDATES_METRIC = "openstack_kubernetes_security_updates_timestamp_seconds"
# Kured ignores this alert: updates that were installed before may wait for a reboot.
UPDATES_LATE = "SecurityUpdatesLate"


def alerts() -> list[Alert]:
    """Return the alert; a machine that is not updated has no such metric."""
    return [
        Alert(
            name=UPDATES_LATE,
            # Every night; a mirror may be down for some of them.
            expression=f"time() - {UPDATES_METRIC} > 7 * 86400",
            lasting="15m",
            severity="warning",
            summary="{{ $labels.instance }} has not installed all security updates for "
            "{{ $value | humanizeDuration }}.",
            action="Run journalctl -u openstack-kubernetes-updates on that machine to see which "
            "package source does not answer. Where none can, set securityUpdates to false: see "
            "'Updates and reboots' in docs/operations.md.",
        )
    ]
