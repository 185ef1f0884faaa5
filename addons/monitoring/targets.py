"""The facts about this cluster that its monitoring is built from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MonitoringTargets:
    """The machines that are monitored, and what is normal for them."""

    # Addresses by name.
    gateways: Mapping[str, str]
    # The address that one of the gateways holds.
    vip: str
    control_plane_count: int
    # Milliseconds between the heartbeats of etcd's leader.
    etcd_heartbeat: int
    # Life of the control planes' certificates.
    certificate_seconds: int
    # Hours between two snapshots of etcd, and where they are kept.
    backup_hours: int
    backup_places: Sequence[str]
    # Whether the gateways forward requests to an ingress controller.
    ingress: bool
    # CronJobs that take snapshots of volumes, and their namespace.
    snapshot_jobs: Sequence[str]
    snapshot_namespace: str
    # Namespace and name of the CronJob that has Stacks tried again; None without the operator.
    stack_retries: tuple[str, str] | None
    # Whether kured reboots nodes.
    reboots: bool
    # Whether Prometheus watches other clusters.
    fleet: bool

    @property
    def vip_holders(self) -> str:
        """PromQL with one series for each gateway that has the VIP on an interface."""
        return f'node_network_address_info{{gateway!="",address="{self.vip}"}}'
