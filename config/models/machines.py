"""Servers by role, pools of workers, and machines that exist already."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from config.base import Settings
from config.values.kubernetes import Share, WorkerCount
from config.values.labels import LabelValue, QualifiedName
from config.values.machine import HostKey, UserName
from config.values.network import Address, DnsLabel
from config.values.text import Name

ServerGroupPolicy = Literal["anti-affinity", "soft-anti-affinity"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Volume(Settings):
    """A Cinder volume."""

    size: Annotated[int, Field(ge=1)]
    """Size in GiB."""
    type: Name | None = None
    """Cinder volume type; the default is that of the cloud."""


class Taint(Settings):
    """A taint that every node of a pool has from the start."""

    key: QualifiedName
    """Key, such as `dedicated` or `example.org/gpu`."""
    value: LabelValue = ""
    """Value; may be empty."""
    effect: TaintEffect
    """Effect on pods that do not tolerate the taint."""

    def __str__(self) -> str:
        """Format it as kubectl does."""
        return f"{self.key}={self.value}:{self.effect}"


class ExistingMachine(Settings):
    """A machine that exists already and joins the cluster as a worker."""

    name: DnsLabel
    """Name of its Kubernetes node."""
    address: Address
    """IP address at which gateways and nodes reach it."""
    ssh_user: UserName | None = None
    """SSH user, who must be allowed to use sudo; the default is `sshUser`."""
    host_key: HostKey
    """SSH host key as in known_hosts, but without the host name: `ssh-ed25519 AAAA...`."""


class RoleSettings(Settings):
    """Settings for the servers of one role."""

    flavor: Name | None = None
    """Name of the flavor; the default is `flavor`."""
    image: Name | None = None
    """Name of the image; the default is `image`."""
    volume: Volume | None = None
    """Boot volume; without it, servers boot from the disk of the flavor."""
    availability_zones: tuple[Name, ...] = ()
    """Availability zones, which servers are assigned to in turn; by default the cloud chooses. With
    another list, servers that get another zone are replaced: with one more zone, most of them."""


class GatewaySettings(RoleSettings):
    """The gateways, the only machines that can be reached from outside."""

    server_group_policy: ServerGroupPolicy = "anti-affinity"
    """Policy of the server group: two gateways must not (`anti-affinity`) or should not
    (`soft-anti-affinity`) share a hypervisor."""


class ControlPlaneSettings(RoleSettings):
    """The control planes."""

    etcd_volume: Volume | None = None
    """A separate volume for etcd's data, in the zone of its server if Cinder has that zone; without
    it, the data is on the boot disk. Its size is at least 1 GiB more than
    `etcd.quotaBackendBytes`, and better 1 GiB more than twice that, for a snapshot. No update
    changes its size, type or zone, and it cannot be removed. In an existing cluster, each control
    plane begins to use it when it is replaced."""
    begin_empty: bool = False
    """Begin an empty cluster if this one has lost all control planes and nothing is left of etcd's
    data: no backup in a bucket, no etcd volume. Without it, an update refuses to. Pods that still
    run on workers are stopped. Remove the key afterwards."""
    server_group_policy: ServerGroupPolicy = "anti-affinity"
    """Policy of the server group: two control planes must not (`anti-affinity`) or should not
    (`soft-anti-affinity`) share a hypervisor."""


def etcd_volume_name(control_plane: str) -> str:
    """The name of the volume that has this machine's etcd data."""
    return f"{control_plane}-etcd"


class WorkerSettings(RoleSettings):
    """Settings for a pool of workers."""

    labels: Mapping[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels of every node in the pool."""
    taints: tuple[Taint, ...] = ()
    """Taints of every node in the pool."""
    max_unavailable: Annotated[int, Field(ge=1)] = 1
    """Number of nodes in the pool that may be out of service at the same time during a change."""
    max_unhealthy: Share = "10%"
    """Nodes in the pool that may be unhealthy while another node of the cluster is drained: a
    number, or a percentage of the pool, rounded down. With more, no healthy node is drained. It
    applies from the update after the one that sets it."""
    delete_local_volumes: bool = False
    """Let nodes leave even if persistent volumes have their data on the node's disk, which is then
    lost. It applies from the update after the one that sets it."""
    server_group_policy: ServerGroupPolicy = "soft-anti-affinity"
    """Policy of the server group: two workers of the pool must not (`anti-affinity`) or should not
    (`soft-anti-affinity`) share a hypervisor."""


class WorkerPoolSettings(WorkerSettings):
    """An additional pool of workers: new servers (`count`), or machines that exist already."""

    name: DnsLabel
    """Name of the pool; its servers are called `<clusterName>-<name>-<number>`."""
    count: WorkerCount = 0
    """Number of servers."""
    machines: tuple[ExistingMachine, ...] = ()
    """Machines that exist already and become workers; not together with `count`."""


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The servers of one role, with all defaults filled in."""

    flavor: str
    image: str
    volume: Volume | None
    availability_zones: tuple[str, ...]

    def availability_zone(self, index: int) -> str | None:
        """The zone of the server with this number; None when the cloud chooses."""
        zones = self.availability_zones
        return zones[index % len(zones)] if zones else None


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One pool of workers: `count` servers, or `machines` (then `count` is 0)."""

    name: str
    count: int
    machines: tuple[ExistingMachine, ...]
    servers: Servers
    """Flavor and image may be empty when the pool has no servers."""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    max_unavailable: int
    max_unhealthy: str
    delete_local_volumes: bool
    server_group_policy: ServerGroupPolicy

    @property
    def nodes_for_every_pod(self) -> int:
        """The number of nodes whose taints keep no pod out."""
        if any(taint.effect != "PreferNoSchedule" for taint in self.taints):
            return 0
        return self.count + len(self.machines)
