"""A cluster of three masters with everything that can be watched."""

from addons.watch import Watched

WATCHED = Watched(
    gateways={"demo-gateway-0": "10.8.0.11", "demo-gateway-1": "10.8.0.12"},
    vip="10.8.0.10",
    masters=3,
    etcd_heartbeat=500,
    ingress=True,
    snapshot_jobs=("nightly", "weekly"),
    snapshot_namespace="snapshots",
    reboots=True,
    backup_hours=6,
    backup_places=("disk", "bucket"),
)
