"""Machines: servers by role, pools of workers, machines that exist already."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from config.base import Address, DnsLabel, Name, Settings
from config.values.labels import LabelValue, QualifiedName
from config.values.machine import HostKey, UserName

ServerGroupPolicy = Literal["anti-affinity", "soft-anti-affinity"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Volume(Settings):
    """A Cinder volume."""

    size: Annotated[int, Field(ge=1)]
    """Size in GiB."""
    type: Name | None = None
    """Cinder volume type; the default is the cloud's."""


class Taint(Settings):
    """A taint that every node of a pool has from the start."""

    key: QualifiedName
    """Key, such as `dedicated` or `example.org/gpu`."""
    value: LabelValue = ""
    """Value; may be empty."""
    effect: TaintEffect
    """What happens to pods that do not tolerate it."""


class ExistingMachine(Settings):
    """A machine that exists already and joins the cluster as a worker."""

    name: DnsLabel
    """Name of its Kubernetes node."""
    address: Address
    """Address at which gateways and nodes reach it."""
    ssh_user: UserName | None = None
    """User with sudo for SSH; the default is `sshUser`."""
    host_key: HostKey
    """Its SSH host key, as in known_hosts but without the host: `ssh-ed25519 AAAA...`."""


class RoleSettings(Settings):
    """What can be set for the servers of one role."""

    flavor: Name | None = None
    """Name of the flavor; the default is `flavor`."""
    image: Name | None = None
    """Name of the image; the default is `image`."""
    volume: Volume | None = None
    """Boot volume; without it the server boots from the flavor's own disk."""
    availability_zones: tuple[Name, ...] = ()
    """Availability zones over which the servers are spread in turn; empty: the cloud decides."""


class GatewaySettings(RoleSettings):
    """The gateways: the only machines with a way in."""

    server_group_policy: ServerGroupPolicy = "anti-affinity"
    """Whether two gateways must not, or only should not, share a hypervisor."""


class ControlPlaneSettings(RoleSettings):
    """The control planes."""

    etcd_volume: Volume | None = None
    """A volume of its own for etcd's data; without it the data is on the boot disk. It stays while
    the cluster lives, in the zone and with the size with which it was made."""
    server_group_policy: ServerGroupPolicy = "anti-affinity"
    """Whether two control planes must not, or only should not, share a hypervisor."""


class WorkerSettings(RoleSettings):
    """What can be set for a pool of workers."""

    labels: Mapping[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels that every node of the pool has."""
    taints: tuple[Taint, ...] = ()
    """Taints that every node of the pool has."""
    max_unavailable: Annotated[int, Field(ge=1)] = 1
    """How many nodes of the pool may be out of service at the same time while it is changed."""
    server_group_policy: ServerGroupPolicy = "soft-anti-affinity"
    """Whether two workers of the pool must not, or only should not, share a hypervisor."""


class WorkerPoolSettings(WorkerSettings):
    """A further pool of workers: servers that are made (`count`), or machines that exist."""

    name: DnsLabel
    """Name of the pool; its nodes are `<clusterName>-<name>-<number>`."""
    count: Annotated[int, Field(ge=0)] = 0
    """Number of servers."""
    machines: tuple[ExistingMachine, ...] = ()
    """Machines that exist already, instead of `count`."""


@dataclass(frozen=True, kw_only=True)
class Servers:
    """How the servers of one role are made, with all defaults filled in."""

    flavor: str
    image: str
    volume: Volume | None
    availability_zones: tuple[str, ...]

    def availability_zone(self, index: int) -> str | None:
        """The zone of the server with this number, None when the cloud decides."""
        zones = self.availability_zones
        return zones[index % len(zones)] if zones else None


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One pool of workers: `count` servers, or `machines` (then `count` is 0)."""

    name: str
    count: int
    machines: tuple[ExistingMachine, ...]
    servers: Servers
    """Both names are empty when the pool makes no server."""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    max_unavailable: int
    server_group_policy: ServerGroupPolicy
