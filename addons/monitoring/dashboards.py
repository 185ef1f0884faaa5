"""The dashboards of this cluster: the whole of it, etcd, the gateways."""

from addons.monitoring.grafana import Dashboard, Panel
from addons.monitoring.targets import MonitoringTargets


def dashboards(targets: MonitoringTargets) -> list[Dashboard]:
    """Every dashboard."""
    return [cluster(), etcd(), gateways(targets)]


def cluster() -> Dashboard:
    """Is the cluster well, and is there room in it?"""
    firing = 'ALERTS{alertstate="firing"'
    ready = 'kube_node_status_condition{condition="Ready",status="true"}'
    return Dashboard(
        name="cluster",
        title="Cluster",
        panels=[
            Panel(
                title="Nodes",
                kind="stat",
                queries={"Ready": f"sum({ready})", "not Ready": f"sum({ready} == bool 0)"},
            ),
            Panel(
                title="Alerts that fire",
                kind="stat",
                queries={
                    severity: f'count({firing},severity="{severity}"}}) or vector(0)'
                    for severity in ("critical", "warning")
                },
            ),
            Panel(
                title="Pods that do not run",
                kind="stat",
                queries={
                    "{{phase}}": 'sum by (phase) (kube_pod_status_phase{phase=~"Pending|Failed"})'
                },
            ),
            Panel(
                title="CPU in use",
                unit="percentunit",
                queries={
                    "{{instance}}": "1 - avg by (instance) "
                    '(rate(node_cpu_seconds_total{mode="idle"}[5m]))'
                },
            ),
            Panel(
                title="Memory in use",
                unit="percentunit",
                queries={
                    "{{instance}}": "1 - node_memory_MemAvailable_bytes "
                    "/ node_memory_MemTotal_bytes"
                },
            ),
            Panel(
                title="Disk in use",
                unit="percentunit",
                queries={
                    "{{instance}}": '1 - node_filesystem_avail_bytes{mountpoint="/"} '
                    '/ node_filesystem_size_bytes{mountpoint="/"}'
                },
            ),
            Panel(
                title="API requests",
                unit="reqps",
                queries={"{{code}}": "sum by (code) (rate(apiserver_request_total[5m]))"},
            ),
            Panel(
                title="API latency, p99, without watches",
                unit="s",
                queries={
                    "{{verb}}": "histogram_quantile(0.99, sum by (verb, le) (rate("
                    'apiserver_request_duration_seconds_bucket{verb!~"WATCH|CONNECT"}[5m])))'
                },
            ),
            Panel(
                title="Volumes in use",
                unit="percentunit",
                queries={
                    "{{namespace}}/{{persistentvolumeclaim}}": "1 - "
                    "kubelet_volume_stats_available_bytes / kubelet_volume_stats_capacity_bytes"
                },
            ),
        ],
    )


def etcd() -> Dashboard:
    """Is etcd fast enough, and does it keep its leader?"""

    def p99(metric: str) -> dict[str, str]:
        return {
            "{{pod}}": "histogram_quantile(0.99, sum by (pod, le) "
            f'(rate({metric}_bucket{{job="kube-etcd"}}[5m])))'
        }

    return Dashboard(
        name="etcd",
        title="Cluster: etcd",
        panels=[
            Panel(title="Members up", kind="stat", queries={"up": 'sum(up{job="kube-etcd"})'}),
            Panel(
                title="Leader",
                kind="stat",
                queries={"{{pod}}": "etcd_server_is_leader == 1"},
            ),
            Panel(
                title="Leader changes in a day",
                kind="stat",
                queries={"changes": "max(increase(etcd_server_leader_changes_seen_total[1d]))"},
            ),
            Panel(
                title="Log to disk (fsync), p99",
                unit="s",
                queries=p99("etcd_disk_wal_fsync_duration_seconds"),
            ),
            Panel(
                title="Commit, p99",
                unit="s",
                queries=p99("etcd_disk_backend_commit_duration_seconds"),
            ),
            Panel(
                title="Round trip between members, p99",
                unit="s",
                queries=p99("etcd_network_peer_round_trip_time_seconds"),
            ),
            Panel(
                title="Database, of its quota",
                unit="percentunit",
                queries={
                    "{{pod}}": "etcd_mvcc_db_total_size_in_bytes / etcd_server_quota_backend_bytes"
                },
            ),
            Panel(
                title="Proposals that wait",
                queries={"{{pod}}": "etcd_server_proposals_pending"},
            ),
            Panel(
                title="Memory",
                unit="bytes",
                queries={"{{pod}}": 'process_resident_memory_bytes{job="kube-etcd"}'},
            ),
        ],
    )


def gateways(targets: MonitoringTargets) -> Dashboard:
    """Who is active, what do they see behind them, what passes through?"""
    active = 'haproxy_backend_active_servers{gateway!=""'
    return Dashboard(
        name="gateways",
        title="Cluster: gateways",
        panels=[
            Panel(title="Active", kind="stat", queries={"{{gateway}}": targets.vip_holders}),
            Panel(
                title="HAProxy, keepalived",
                kind="stat",
                queries={
                    "{{gateway}} {{name}}": 'node_systemd_unit_state{gateway!="",state="active"}'
                },
            ),
            Panel(
                title="API servers ready",
                kind="stat",
                queries={"seen by {{gateway}}": f'{active},proxy="api"}}'},
            ),
            Panel(
                title="Connections at a time",
                queries={
                    "{{gateway}} {{proxy}}": 'haproxy_frontend_current_sessions{gateway!="",'
                    'proxy!~"health|status"}'
                },
            ),
            Panel(
                title="Traffic to clients",
                unit="Bps",
                queries={
                    "{{gateway}} {{proxy}}": "rate(haproxy_frontend_bytes_out_total{gateway!="
                    '"",proxy!~"health|status"}[5m])'
                },
            ),
            Panel(
                title="Ingress ports that answer",
                queries={"{{gateway}} {{proxy}}": f'{active},proxy=~"ingress-.+"}}'},
            ),
            Panel(
                title="CPU in use",
                unit="percentunit",
                queries={
                    "{{gateway}}": "1 - avg by (gateway) "
                    '(rate(node_cpu_seconds_total{gateway!="",mode="idle"}[5m]))'
                },
            ),
            Panel(
                title="Memory in use",
                unit="percentunit",
                queries={
                    "{{gateway}}": '1 - node_memory_MemAvailable_bytes{gateway!=""} '
                    '/ node_memory_MemTotal_bytes{gateway!=""}'
                },
            ),
            Panel(
                title="Connections refused or failed",
                queries={
                    "{{gateway}} {{proxy}}": "rate("
                    'haproxy_backend_connection_errors_total{gateway!=""}[5m])'
                },
            ),
        ],
    )
