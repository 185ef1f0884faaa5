"""Alerts about etcd: its majority, its disks and its size."""

from addons.monitoring.alerts.alert import Alert, Severity
from addons.monitoring.targets import MonitoringTargets

_JOB = 'job="kube-etcd"'
_MEMBERS_UP = f"sum(up{{{_JOB}}})"
_MILLISECONDS = 1000


def alerts(targets: MonitoringTargets) -> list[Alert]:
    """Return the alerts that fit the number of members and their heartbeat."""
    return [
        *_lost_members(targets.control_plane_count),
        *_leader(),
        *_slow_disk(targets.etcd_heartbeat / _MILLISECONDS),
        _full(),
    ]


def _lost_members(expected: int) -> list[Alert]:
    # A cluster with one member is gone when it loses it, and this alert with it.
    if expected == 1:
        return []
    quorum = expected // 2 + 1
    at_risk = Alert(
        name="EtcdQuorumAtRisk",
        expression=f"{_MEMBERS_UP} <= {quorum}",
        lasting="3m",
        severity="critical",
        summary=f"Only {{{{ $value }}}} of {expected} etcd members answer: one more loss stops "
        "the cluster.",
        action="Repair the lost control plane now: see 'Replace a machine' and 'Lost quorum' in "
        "docs/operations.md.",
    )
    # With three members, the first loss already puts the quorum at risk.
    if quorum == expected - 1:
        return [at_risk]
    down = Alert(
        name="EtcdMemberDown",
        expression=f"{_MEMBERS_UP} < {expected}",
        lasting="3m",
        severity="warning",
        summary=f"Only {{{{ $value }}}} of {expected} etcd members answer.",
        action="Repair or replace the control plane before another one is lost.",
    )
    return [down, at_risk]


def _leader() -> list[Alert]:
    return [
        Alert(
            name="EtcdNoLeader",
            expression=f"etcd_server_has_leader{{{_JOB}}} == 0",
            lasting="1m",
            severity="critical",
            summary="{{ $labels.pod }} has no leader.",
            action="Nothing can be written. See 'Lost quorum' in docs/operations.md.",
        ),
        Alert(
            name="EtcdLeaderChanges",
            expression=f"max(increase(etcd_server_leader_changes_seen_total{{{_JOB}}}[15m])) >= 3",
            lasting="5m",
            severity="warning",
            summary="etcd changed its leader {{ $value }} times within 15 minutes.",
            action="Disks or the network are too slow: look at the dashboard 'Cluster: etcd'.",
        ),
    ]


def _slow_disk(heartbeat: float) -> list[Alert]:
    fsync = ("etcd_disk_wal_fsync_duration_seconds", "sync of the log to disk")
    commit = ("etcd_disk_backend_commit_duration_seconds", "commit to the database")
    return [
        _slow("EtcdSlowFsync", *fsync, heartbeat / 2, "warning"),
        # A leader that waits longer for its disk misses heartbeats.
        _slow("EtcdVerySlowFsync", *fsync, heartbeat, "critical"),
        _slow("EtcdSlowCommit", *commit, heartbeat / 2, "warning"),
    ]


def _slow(name: str, metric: str, write: str, seconds: float, severity: Severity) -> Alert:
    rate = f"rate({metric}_bucket{{{_JOB}}}[5m])"
    return Alert(
        name=name,
        expression=f"histogram_quantile(0.99, sum by (pod, le) ({rate})) > {seconds:g}",
        lasting="10m",
        severity=severity,
        summary=f"On {{{{ $labels.pod }}}}, one {write} in 100 takes longer than "
        "{{ $value | humanizeDuration }}.",
        action="Its disk is too slow or too busy: use a faster volume type "
        "(controlPlane.etcdVolume), or keep other work off the control planes.",
    )


def _full() -> Alert:
    return Alert(
        name="EtcdDatabaseNearlyFull",
        expression=f"etcd_mvcc_db_total_size_in_bytes{{{_JOB}}} "
        f"/ etcd_server_quota_backend_bytes{{{_JOB}}} > 0.8",
        lasting="10m",
        severity="warning",
        summary="The database of {{ $labels.pod }} is {{ $value | humanizePercentage }} full.",
        action="When it is full, nothing can be written: see 'Full etcd' in docs/operations.md.",
    )
