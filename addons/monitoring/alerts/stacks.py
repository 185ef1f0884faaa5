"""An alert about clusters that Pulumi's operator runs."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets

# It holds back no reboot here: another cluster gains nothing from it.
STACK_FAILING = "StackFailing"


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return an alert for a Stack that has been failing for long; none without the operator."""
    if targets.stack_retries is None:
        return []
    namespace, job = targets.stack_retries
    of_job = f'{{namespace="{namespace}",cronjob="{job}"}}'
    # A run succeeds only while no Stack fails. The first one may never have.
    good = f"kube_cronjob_status_last_successful_time{of_job} or kube_cronjob_created{of_job}"
    return [
        Alert(
            name=STACK_FAILING,
            expression=f"time() - max by (cronjob) ({good}) > 3600",
            lasting="5m",
            severity="warning",
            summary="A Stack has been failing for {{ $value | humanizeDuration }}.",
            action="Run kubectl -n clusters get stacks, and see 'Clusters as objects of the admin "
            f"cluster' in docs/fleet.md. If none fails, see kubectl -n {namespace} get jobs.",
        )
    ]
