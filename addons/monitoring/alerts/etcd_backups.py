"""Alerts about snapshots of etcd, on the disks of the control planes and in the bucket."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# Written by userdata/backup/backup.sh for node-exporter.
BACKUP_METRIC = "openstack_kubernetes_etcd_backup_timestamp_seconds"
# Written by userdata/backup/proof.sh, once a day.
PROOF_METRIC = "openstack_kubernetes_etcd_backup_proved_timestamp_seconds"
_PROOF_HOURS = 24

_ACTION = (
    "Run journalctl -u {} on a control plane to see why, and see 'Backups' in docs/operations.md."
)
_BACKUP_ACTION = _ACTION.format("openstack-kubernetes-backup")
_PROOF_ACTION = _ACTION.format("openstack-kubernetes-backup-proof")


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return the alerts that fit the interval; none if no snapshots are taken."""
    if not targets.backup_places:
        return []
    patience_hours = 2 * targets.backup_hours
    proof_patience_hours = 2 * _PROOF_HOURS + targets.backup_hours
    # A snapshot is on a disk before it is in the bucket.
    last = targets.backup_places[-1]
    return [
        Alert(
            name="EtcdBackupLate",
            # A snapshot from any one control plane is enough.
            expression=f"time() - max by (place) ({BACKUP_METRIC}) > {patience_hours * 3600}",
            lasting="15m",
            severity="critical",
            summary="The newest snapshot of etcd ({{ $labels.place }}) is "
            "{{ $value | humanizeDuration }} old.",
            action=_BACKUP_ACTION,
        ),
        Alert(
            name="EtcdBackupMissing",
            expression=f'absent({BACKUP_METRIC}{{place="{last}"}})',
            lasting=f"{patience_hours}h",
            severity="critical",
            summary=f"There is no snapshot of etcd ({last}).",
            action=_BACKUP_ACTION,
        ),
        Alert(
            name="EtcdBackupUnproved",
            # A proof on any one control plane is enough.
            expression=f"time() - max({PROOF_METRIC}) > {proof_patience_hours * 3600}",
            lasting="15m",
            severity="critical",
            summary="The newest snapshot of etcd that was restored as a test is "
            "{{ $value | humanizeDuration }} old.",
            action=_PROOF_ACTION,
        ),
        Alert(
            name="EtcdBackupNeverProved",
            expression=f"absent({PROOF_METRIC})",
            lasting=f"{proof_patience_hours}h",
            severity="critical",
            summary="No snapshot of etcd was ever restored as a test.",
            action=_PROOF_ACTION,
        ),
    ]
