"""Alerts that fit this cluster, beside those that come with kube-prometheus-stack."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from addons.monitoring.targets import MonitoringTargets

# The chart's alerts in whose place ours are: these know how many etcd members there are, and that
# 15 minutes are long for a node.
REPLACED_GROUPS = ("etcd",)
REPLACED_ALERTS = ("KubeNodeNotReady",)
# It must not hold back what it waits for.
REBOOT_OVERDUE = "NodeRebootOverdue"
# What userdata/backup/backup.sh writes for node-exporter.
BACKUP_METRIC = "openstack_kubernetes_etcd_backup_timestamp_seconds"

_FSYNC = 'etcd_disk_wal_fsync_duration_seconds_bucket{job="kube-etcd"}'
_COMMIT = 'etcd_disk_backend_commit_duration_seconds_bucket{job="kube-etcd"}'
_NODE_READY = 'kube_node_status_condition{job="kube-state-metrics",condition="Ready",status="true"}'
# Of the API server's buckets, the one that ends at 30 days; how it is written differs.
_30_DAYS = 'le=~"2592000|2592000\\\\.0|2\\\\.592e\\\\+06"'


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert. `summary` says what is wrong, `action` what to do about it."""

    name: str
    expression: str
    # How long it must be true: Prometheus' notation.
    lasting: str
    severity: Literal["warning", "critical"]
    summary: str
    action: str

    def document(self) -> dict[str, Any]:
        """The rule as a PrometheusRule has it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.action},
        }


def groups(targets: MonitoringTargets) -> dict[str, Sequence[Alert]]:
    """Every alert, by the name of its group."""
    found = {
        "gateways": gateways(targets),
        "etcd": etcd(targets),
        "nodes": [*nodes(), *reboots(targets)],
        "snapshots": snapshots(targets),
        "backups": backups(targets),
    }
    return {name: alerts for name, alerts in found.items() if alerts}


def spec(targets: MonitoringTargets) -> dict[str, Any]:
    """The `spec` of a PrometheusRule with all of them."""
    return {
        "groups": [
            {
                "name": f"openstack-kubernetes-{name}",
                "rules": [alert.document() for alert in alerts],
            }
            for name, alerts in groups(targets).items()
        ]
    }


def gateways(targets: MonitoringTargets) -> list[Alert]:
    """The machines that people come in through."""
    holders = targets.vip_holders
    alone = len(targets.gateways) == 1
    return [
        Alert(
            name="GatewayDown",
            expression='max by (gateway) (up{gateway!=""}) == 0',
            lasting="2m",
            severity="critical" if alone else "warning",
            summary="Gateway {{ $labels.gateway }} answers no scrape.",
            action="Look at the server in OpenStack; replace it as under 'Lost gateway' in "
            "docs/operations.md.",
        ),
        Alert(
            name="GatewayServiceDown",
            expression='node_systemd_unit_state{gateway!="",state="active",'
            'name=~"(haproxy|keepalived)\\\\.service"} == 0',
            lasting="1m",
            severity="critical" if alone else "warning",
            summary="{{ $labels.name }} does not run on {{ $labels.gateway }}.",
            action="Log in on the gateway: journalctl -u {{ $labels.name }}. A gateway without it "
            "cannot take over.",
        ),
        Alert(
            name="GatewayNoneActive",
            expression=f"absent({holders})",
            lasting="1m",
            severity="critical",
            summary=f"No gateway has the address {targets.vip}.",
            action="The API and the ingress cannot be reached from outside. Look at keepalived on "
            "the gateways, and whether Prometheus can reach them at all.",
        ),
        Alert(
            name="GatewaySeveralActive",
            expression=f"count({holders}) > 1",
            lasting="1m",
            severity="critical",
            summary=f"{{{{ $value }}}} gateways have the address {targets.vip} at once.",
            action="They do not hear each other's VRRP packets: look at the security group of the "
            "gateways and at keepalived's journal.",
        ),
        *(() if alone else (_moved(targets),)),
        Alert(
            name="GatewaySeesControlPlanesDown",
            expression='haproxy_backend_active_servers{gateway!="",proxy="api"} '
            f"< {targets.control_planes} > 0",
            lasting="5m",
            severity="warning",
            summary="HAProxy on {{ $labels.gateway }} finds {{ $value }} of "
            f"{targets.control_planes} API servers ready.",
            action="Look at the control planes: kubectl get nodes, and the pods of kube-apiserver.",
        ),
        Alert(
            name="GatewaySeesNoControlPlane",
            expression='haproxy_backend_active_servers{gateway!="",proxy="api"} == 0',
            lasting="1m",
            severity="critical",
            summary="HAProxy on {{ $labels.gateway }} finds no API server ready.",
            action="If this gateway is the active one, the API cannot be reached from outside.",
        ),
        *([_no_ingress()] if targets.ingress else []),
    ]


def _moved(targets: MonitoringTargets) -> Alert:
    holders = targets.vip_holders
    return Alert(
        name="GatewayTookOver",
        # Not when there was no series five minutes ago: that is a new cluster, not a move.
        expression=f"{holders} unless on (gateway) ({holders} offset 5m) "
        f"and on () (count({holders} offset 5m) > 0)",
        lasting="0m",
        severity="warning",
        summary="{{ $labels.gateway }} has taken over the way in.",
        action="Expected while gateways are rolled or rebooted. Else find out what happened to the "
        "other one: journalctl -u keepalived -u haproxy there.",
    )


def _no_ingress() -> Alert:
    return Alert(
        name="GatewaySeesNoIngress",
        expression='haproxy_backend_active_servers{gateway!="",proxy=~"ingress-.+"} == 0',
        lasting="2m",
        severity="critical",
        summary="HAProxy on {{ $labels.gateway }} finds no {{ $labels.proxy }} to send to.",
        action="Look at the pods in the namespace ingress, and at their NodePort Service.",
    )


def backups(targets: MonitoringTargets) -> list[Alert]:
    """Snapshots of etcd, on the control planes' disks and in the bucket."""
    if not targets.backup_places:
        return []
    hours = 2 * targets.backup_hours
    # What is in the bucket has been on a disk before.
    last = targets.backup_places[-1]
    action = (
        "`journalctl -u openstack-kubernetes-backup` on a control plane says why; see 'Backups' in "
        "docs/operations.md."
    )
    return [
        Alert(
            name="EtcdBackupLate",
            # One control plane's will do.
            expression=f"time() - max by (place) ({BACKUP_METRIC}) > {hours * 3600}",
            lasting="15m",
            severity="critical",
            summary="The newest snapshot of etcd ({{ $labels.place }}) is "
            "{{ $value | humanizeDuration }} old.",
            action=action,
        ),
        Alert(
            name="EtcdBackupMissing",
            expression=f'absent({BACKUP_METRIC}{{place="{last}"}})',
            lasting=f"{hours}h",
            severity="critical",
            summary=f"There is no snapshot of etcd ({last}).",
            action=action,
        ),
    ]


def etcd(targets: MonitoringTargets) -> list[Alert]:
    """The cluster's memory: its majority, its disks, its size."""
    quorum = targets.control_planes // 2 + 1
    alive = 'sum(up{job="kube-etcd"})'
    heartbeat = targets.etcd_heartbeat / 1000
    losses = [
        Alert(
            name="EtcdMemberDown",
            expression=f"{alive} < {targets.control_planes}",
            lasting="3m",
            severity="warning",
            summary=f"{{{{ $value }}}} of {targets.control_planes} etcd members answer.",
            action="Repair or replace the control plane before another one is lost.",
        ),
        Alert(
            name="EtcdQuorumAtRisk",
            expression=f"{alive} <= {quorum}",
            lasting="3m",
            severity="critical",
            summary=f"{{{{ $value }}}} of {targets.control_planes} etcd members answer: "
            "one more loss stops the cluster.",
            action="Repair the lost control plane now: see 'Replace a machine' and 'Lost quorum' "
            "in docs/operations.md.",
        ),
    ]
    return [
        # With three members the first loss is already the one before the last.
        *(
            losses[1:]
            if targets.control_planes == 3
            else losses
            if targets.control_planes > 3
            else []
        ),
        Alert(
            name="EtcdNoLeader",
            expression='etcd_server_has_leader{job="kube-etcd"} == 0',
            lasting="1m",
            severity="critical",
            summary="{{ $labels.pod }} knows no leader.",
            action="Nothing can be written. See 'Lost quorum' in docs/operations.md.",
        ),
        Alert(
            name="EtcdLeaderChanges",
            expression="max("
            'increase(etcd_server_leader_changes_seen_total{job="kube-etcd"}[15m])) >= 3',
            lasting="5m",
            severity="warning",
            summary="etcd changed its leader {{ $value }} times within 15 minutes.",
            action="Disks or the network are too slow: look at the dashboard 'etcd'.",
        ),
        _slow("EtcdSlowFsync", _FSYNC, heartbeat / 2, "warning", "writes its log to disk in (p99)"),
        # A leader that waits for its disk longer than that misses heartbeats.
        _slow(
            "EtcdVerySlowFsync", _FSYNC, heartbeat, "critical", "writes its log to disk in (p99)"
        ),
        _slow("EtcdSlowCommit", _COMMIT, heartbeat / 2, "warning", "commits to its database in"),
        Alert(
            name="EtcdDatabaseNearlyFull",
            expression='etcd_mvcc_db_total_size_in_bytes{job="kube-etcd"} '
            '/ etcd_server_quota_backend_bytes{job="kube-etcd"} > 0.8',
            lasting="10m",
            severity="warning",
            summary="the database of {{ $labels.pod }} is {{ $value | humanizePercentage }} full.",
            action="When it is full, nothing can be written. Find what writes so much, defragment "
            "etcd, or raise etcd.quotaBackendBytes.",
        ),
    ]


def _slow(
    name: str, buckets: str, seconds: float, severity: Literal["warning", "critical"], does: str
) -> Alert:
    return Alert(
        name=name,
        expression=f"histogram_quantile(0.99, sum by (pod, le) (rate({buckets}[5m]))) "
        f"> {seconds:g}",
        lasting="10m",
        severity=severity,
        summary=f"{{{{ $labels.pod }}}} {does} {{{{ $value | humanizeDuration }}}}.",
        action="Its disk is too slow or too busy: use a faster volume type "
        "(controlPlane.etcdVolume), or keep other work off the control planes.",
    )


def nodes() -> list[Alert]:
    """Nodes, and the certificates that hold the cluster together."""
    return [
        Alert(
            name="NodeNotReady",
            expression=f"{_NODE_READY} == 0",
            lasting="5m",
            severity="warning",
            summary="Node {{ $labels.node }} is not Ready.",
            action="See 'A node does not come up' and 'Replace a machine' in docs/operations.md.",
        ),
        Alert(
            name="CertificateExpires",
            expression="sum(increase(apiserver_client_certificate_expiration_seconds_bucket"
            f'{{job="apiserver",{_30_DAYS}}}[1h])) > 0',
            lasting="15m",
            severity="warning",
            summary="Somebody logs in to the API with a certificate that is good for less than 30 "
            "days.",
            action="Run pulumi up: it renews the administrator's certificate and those of the "
            "control planes. See 'Certificates' in docs/operations.md.",
        ),
    ]


def reboots(targets: MonitoringTargets) -> list[Alert]:
    """Reboots that never come: some alert that fires for ever holds all of them back."""
    if not targets.reboots:
        return []
    return [
        Alert(
            name=REBOOT_OVERDUE,
            # Kured's pod may start anew meanwhile.
            expression="max by (node) (max_over_time(kured_reboot_required[1h])) > 0",
            # A window may come once a week, and one node at a time.
            lasting="8d",
            severity="warning",
            summary="Node {{ $labels.node }} has waited for its reboot for more than a week.",
            action="kubectl -n kured logs of the pod on that node names the alerts, or the drain, "
            "that it waits for.",
        )
    ]


def snapshots(targets: MonitoringTargets) -> list[Alert]:
    """Scheduled snapshots of volumes."""
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
            # The last one that was due has not ended well an hour later.
            expression=f"(time() - {due} > 3600) and ({due} > {done} or {due} unless {done})",
            lasting="5m",
            severity="warning",
            summary="Snapshots of {{ $labels.cronjob }} are late.",
            action=f"kubectl -n {targets.snapshot_namespace} get jobs, and the log of the newest.",
        )
    ]
