"""A cluster of three control planes with everything that can be monitored."""

from addons.monitoring.targets import MonitoringTargets

TARGETS = MonitoringTargets(
    gateways={"demo-gateway-0": "10.8.0.11", "demo-gateway-1": "10.8.0.12"},
    vip="10.8.0.10",
    control_plane_count=3,
    etcd_heartbeat=500,
    certificate_seconds=365 * 24 * 3600,
    ingress=True,
    snapshot_jobs=("nightly", "weekly"),
    snapshot_namespace="snapshots",
    stack_retries=("operator", "retry-stacks"),
    reboots=True,
    fleet=True,
    backup_hours=6,
    backup_places=("disk", "bucket"),
)
