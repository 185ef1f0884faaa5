"""The Grafana dashboards of this cluster: overview, etcd, gateways, and other clusters."""

from addons.monitoring.alerts import BACKUP_METRIC, EXPIRY_METRIC, PROOF_METRIC
from addons.monitoring.grafana import GrafanaDashboard, GrafanaPanel
from addons.monitoring.targets import MonitoringTargets
from config.federation import JOB, PREFIX


def dashboards(targets: MonitoringTargets) -> list[GrafanaDashboard]:
    """Return every dashboard."""
    return [cluster(), etcd(), gateways(targets), *([fleet()] if targets.fleet else [])]


def cluster() -> GrafanaDashboard:
    """Health and free capacity of the whole cluster."""
    firing = 'ALERTS{alertstate="firing"'
    ready = 'kube_node_status_condition{condition="Ready",status="true"}'
    return GrafanaDashboard(
        name="cluster",
        title="Cluster",
        panels=[
            GrafanaPanel(
                title="Nodes",
                kind="stat",
                queries={"Ready": f"sum({ready})", "not Ready": f"sum({ready} == bool 0)"},
            ),
            GrafanaPanel(
                title="Firing alerts",
                kind="stat",
                queries={
                    severity: f'count({firing},severity="{severity}"}}) or vector(0)'
                    for severity in ("critical", "warning")
                },
            ),
            GrafanaPanel(
                title="Pods not running",
                kind="stat",
                queries={
                    "{{phase}}": 'sum by (phase) (kube_pod_status_phase{phase=~"Pending|Failed"})'
                },
            ),
            GrafanaPanel(
                title="CPU usage",
                unit="percentunit",
                queries={
                    "{{instance}}": "1 - avg by (instance) "
                    '(rate(node_cpu_seconds_total{mode="idle"}[5m]))'
                },
            ),
            GrafanaPanel(
                title="Memory usage",
                unit="percentunit",
                queries={
                    "{{instance}}": "1 - node_memory_MemAvailable_bytes "
                    "/ node_memory_MemTotal_bytes"
                },
            ),
            GrafanaPanel(
                title="Disk usage",
                unit="percentunit",
                queries={
                    "{{instance}}": '1 - node_filesystem_avail_bytes{mountpoint="/"} '
                    '/ node_filesystem_size_bytes{mountpoint="/"}'
                },
            ),
            GrafanaPanel(
                title="API requests",
                unit="reqps",
                queries={"{{code}}": "sum by (code) (rate(apiserver_request_total[5m]))"},
            ),
            GrafanaPanel(
                title="API latency, p99 (without watches)",
                unit="s",
                queries={
                    "{{verb}}": "histogram_quantile(0.99, sum by (verb, le) (rate("
                    'apiserver_request_duration_seconds_bucket{verb!~"WATCH|CONNECT"}[5m])))'
                },
            ),
            GrafanaPanel(
                title="Volume usage",
                unit="percentunit",
                queries={
                    "{{namespace}}/{{persistentvolumeclaim}}": "1 - "
                    "kubelet_volume_stats_available_bytes / kubelet_volume_stats_capacity_bytes"
                },
            ),
        ],
    )


def etcd() -> GrafanaDashboard:
    """Speed of etcd, and stability of its leader."""

    def p99(metric: str) -> dict[str, str]:
        return {
            "{{pod}}": "histogram_quantile(0.99, sum by (pod, le) "
            f'(rate({metric}_bucket{{job="kube-etcd"}}[5m])))'
        }

    return GrafanaDashboard(
        name="etcd",
        title="Cluster: etcd",
        panels=[
            GrafanaPanel(
                title="Members up", kind="stat", queries={"up": 'sum(up{job="kube-etcd"})'}
            ),
            GrafanaPanel(
                title="Leader",
                kind="stat",
                queries={"{{pod}}": "etcd_server_is_leader == 1"},
            ),
            GrafanaPanel(
                title="Leader changes in 24 hours",
                kind="stat",
                queries={"changes": "max(increase(etcd_server_leader_changes_seen_total[1d]))"},
            ),
            GrafanaPanel(
                title="Log sync to disk (fsync), p99",
                unit="s",
                queries=p99("etcd_disk_wal_fsync_duration_seconds"),
            ),
            GrafanaPanel(
                title="Database commit, p99",
                unit="s",
                queries=p99("etcd_disk_backend_commit_duration_seconds"),
            ),
            GrafanaPanel(
                title="Round trip between members, p99",
                unit="s",
                queries=p99("etcd_network_peer_round_trip_time_seconds"),
            ),
            GrafanaPanel(
                title="Database size, of its quota",
                unit="percentunit",
                queries={
                    "{{pod}}": "etcd_mvcc_db_total_size_in_bytes / etcd_server_quota_backend_bytes"
                },
            ),
            GrafanaPanel(
                title="Pending proposals",
                queries={"{{pod}}": "etcd_server_proposals_pending"},
            ),
            GrafanaPanel(
                title="Memory",
                unit="bytes",
                queries={"{{pod}}": 'process_resident_memory_bytes{job="kube-etcd"}'},
            ),
        ],
    )


def gateways(targets: MonitoringTargets) -> GrafanaDashboard:
    """The active gateway, the backends that the gateways see, and their traffic."""
    active = 'haproxy_backend_active_servers{gateway!=""'
    return GrafanaDashboard(
        name="gateways",
        title="Cluster: gateways",
        panels=[
            GrafanaPanel(
                title="Active gateway", kind="stat", queries={"{{gateway}}": targets.vip_holders}
            ),
            GrafanaPanel(
                title="HAProxy and keepalived",
                kind="stat",
                queries={
                    "{{gateway}} {{name}}": 'node_systemd_unit_state{gateway!="",state="active"}'
                },
            ),
            GrafanaPanel(
                title="API servers ready",
                kind="stat",
                queries={"seen by {{gateway}}": f'{active},proxy="api"}}'},
            ),
            GrafanaPanel(
                title="Open connections",
                queries={
                    "{{gateway}} {{proxy}}": 'haproxy_frontend_current_sessions{gateway!="",'
                    'proxy!~"health|status"}'
                },
            ),
            GrafanaPanel(
                title="Traffic to clients",
                unit="Bps",
                queries={
                    "{{gateway}} {{proxy}}": "rate(haproxy_frontend_bytes_out_total{gateway!="
                    '"",proxy!~"health|status"}[5m])'
                },
            ),
            GrafanaPanel(
                title="Ingress backends ready",
                queries={"{{gateway}} {{proxy}}": f'{active},proxy=~"ingress-.+"}}'},
            ),
            GrafanaPanel(
                title="CPU usage",
                unit="percentunit",
                queries={
                    "{{gateway}}": "1 - avg by (gateway) "
                    '(rate(node_cpu_seconds_total{gateway!="",mode="idle"}[5m]))'
                },
            ),
            GrafanaPanel(
                title="Memory usage",
                unit="percentunit",
                queries={
                    "{{gateway}}": '1 - node_memory_MemAvailable_bytes{gateway!=""} '
                    '/ node_memory_MemTotal_bytes{gateway!=""}'
                },
            ),
            GrafanaPanel(
                title="Failed connections to backends",
                queries={
                    "{{gateway}} {{proxy}}": "rate("
                    'haproxy_backend_connection_errors_total{gateway!=""}[5m])'
                },
            ),
        ],
    )


def fleet() -> GrafanaDashboard:
    """Every cluster that is watched, on one page."""
    watched = f'up{{job="{JOB}"}}'
    ready = f"{PREFIX}kube_node_status_condition"
    return GrafanaDashboard(
        name="fleet",
        title="Fleet",
        panels=[
            GrafanaPanel(
                title="Clusters",
                kind="stat",
                queries={
                    "answer": f"count({watched} == 1) or vector(0)",
                    "silent": f"count({watched} == 0) or vector(0)",
                },
            ),
            GrafanaPanel(
                title="API servers by version",
                kind="stat",
                queries={
                    "{{cluster}} {{git_version}}": "count by (cluster, git_version) "
                    f"({PREFIX}kubernetes_build_info)"
                },
            ),
            GrafanaPanel(
                title="Firing alerts",
                kind="stat",
                queries={
                    "{{cluster}} {{severity}}": "count by (cluster, severity) "
                    f'({PREFIX}ALERTS{{severity=~"critical|warning"}})'
                },
            ),
            GrafanaPanel(
                title="Nodes Ready",
                kind="stat",
                queries={"{{cluster}}": f"sum by (cluster) ({ready})"},
            ),
            GrafanaPanel(
                title="Nodes not Ready",
                kind="stat",
                queries={"{{cluster}}": f"sum by (cluster) ({ready} == bool 0)"},
            ),
            GrafanaPanel(
                title="Drift: nodes at a version that no API server has",
                kind="stat",
                queries={"{{cluster}}": _nodes_at_another_version()},
            ),
            GrafanaPanel(
                title="Certificates of control planes expire in",
                kind="stat",
                unit="s",
                queries={"{{cluster}}": f"min by (cluster) ({PREFIX}{EXPIRY_METRIC}) - time()"},
            ),
            GrafanaPanel(
                title="Age of the newest backup",
                kind="stat",
                unit="s",
                queries={
                    "{{cluster}} {{place}}": "time() - max by (cluster, place) "
                    f"({PREFIX}{BACKUP_METRIC})"
                },
            ),
            GrafanaPanel(
                title="Age of the newest proved backup",
                kind="stat",
                unit="s",
                queries={"{{cluster}}": f"time() - max by (cluster) ({PREFIX}{PROOF_METRIC})"},
            ),
        ],
    )


def _nodes_at_another_version() -> str:
    def by_version(metric: str, label: str) -> str:
        renamed = f'label_replace({PREFIX}{metric}, "version", "$1", "{label}", "(.*)")'
        return f"count by (cluster, version) ({renamed})"

    nodes = by_version("kube_node_info", "kubelet_version")
    api_servers = by_version("kubernetes_build_info", "git_version")
    others = f"sum by (cluster) ({nodes} unless {api_servers})"
    return f"{others} or 0 * count by (cluster) ({PREFIX}kube_node_info)"
