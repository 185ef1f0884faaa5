"""Alerts about the other clusters, of the admin cluster's Prometheus that watches them."""

from addons.monitoring.alerts.alert import Alert
from addons.monitoring.targets import MonitoringTargets
from config.federation import JOB, PREFIX

# They hold back no reboot here: another cluster gains nothing from it.
FLEET_ALERTS = ("FleetClusterSilent", "FleetUnwatched")
# The chart's alert of this name also means other clusters.
TARGET_DOWN = "TargetDown"

_WATCHED = f'up{{job="{JOB}"}}'
_COMMAND = "`.venv/bin/python -m commands.fleet monitoring`"


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return the alerts about other clusters; none if this one watches none."""
    if not targets.fleet:
        return []
    silent, unwatched = FLEET_ALERTS
    service = "cluster, job, namespace, service"
    up = f'up{{job!="{JOB}"}}'
    return [
        Alert(
            name=silent,
            # Also one whose Prometheus answers and knows no node.
            expression=f"{_WATCHED} == 0 or ({_WATCHED} "
            f"unless on (cluster) {PREFIX}kube_node_status_condition)",
            lasting="5m",
            severity="critical",
            summary="The cluster {{ $labels.cluster }} is silent.",
            action="Its API, its Prometheus or the connection is down, or the token has expired: "
            f"{_COMMAND} says which.",
        ),
        Alert(
            name=unwatched,
            expression=f"absent({_WATCHED})",
            lasting="1h",
            severity="warning",
            summary="No cluster of the fleet is watched.",
            action=f"Run {_COMMAND}, and see 'Watching all clusters' in docs/fleet.md.",
        ),
        Alert(
            name=TARGET_DOWN,
            expression=f"100 * count by ({service}) ({up} == 0) / count by ({service}) ({up}) > 10",
            lasting="10m",
            severity="warning",
            summary="{{ $value | humanize }} % of the targets of {{ $labels.job }} in "
            "{{ $labels.namespace }} are down.",
            action="The page Targets of Prometheus says why each does not answer.",
        ),
    ]
