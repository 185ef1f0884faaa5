"""What the monitoring of this cluster must know: which machines there are, and what is normal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MonitoringTargets:
    """The cluster as its alerts, dashboards and scrape targets see it."""

    # Name to address.
    gateways: Mapping[str, str]
    # The address that one gateway holds.
    vip: str
    control_planes: int
    # Milliseconds between the heartbeats of etcd's leader.
    etcd_heartbeat: int
    # Hours between two snapshots of etcd, and where the newest one must not be old.
    backup_hours: int
    backup_places: Sequence[str]
    # Whether the gateways have an ingress to lead to.
    ingress: bool
    # CronJobs that take snapshots of volumes, and their namespace.
    snapshot_jobs: Sequence[str]
    snapshot_namespace: str
    # Whether kured reboots nodes.
    reboots: bool

    @property
    def vip_holders(self) -> str:
        """PromQL: one series for each gateway that has the VIP on an interface."""
        return f'node_network_address_info{{gateway!="",address="{self.vip}"}}'
