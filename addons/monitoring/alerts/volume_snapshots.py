"""Alerts about scheduled snapshots of persistent volumes."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return an alert for late snapshots; none if nothing takes them."""
    if not targets.snapshot_jobs:
        return []
    jobs = (
        f'{{namespace="{targets.snapshot_namespace}",cronjob=~"{"|".join(targets.snapshot_jobs)}"}}'
    )
    due = f"max by (cronjob) (kube_cronjob_status_last_schedule_time{jobs})"
    done = f"max by (cronjob) (kube_cronjob_status_last_successful_time{jobs})"
    return [
        Alert(
            name="SnapshotsLate",
            # Also where one is due every hour: none has succeeded since the last that was due.
            expression=f"{due} > {done} or {due} unless {done}",
            lasting="65m",
            severity="warning",
            summary="Snapshots of {{ $labels.cronjob }} are late.",
            action=f"Run kubectl -n {targets.snapshot_namespace} get jobs, and read the log of the "
            "newest.",
        )
    ]
