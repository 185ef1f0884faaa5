"""The resources and limits of the cloud, as far as a cluster's configuration needs it.

None means that the cloud did not answer; the checks then accept anything. What the cluster has
already may also be empty then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any

UNLIMITED = -1
# Some fields of `Facts`.
PartialFacts = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Flavor:
    """A flavor: cores, memory in MiB, disk in GiB."""

    name: str
    cores: int
    memory: int
    disk: int


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image and what it requires of a server: disk in GiB, memory in MiB."""

    name: str
    active: bool = True
    least_disk: int = 0
    least_memory: int = 0


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server whose name begins with that of the cluster: cores, memory in MiB."""

    name: str
    cores: int
    memory: int
    id: str = ""
    cluster_id: str = ""
    """The ID of its cluster, which is in its metadata."""
    error: str | None = None
    """Nova's reason for the state ERROR, which may be empty; None in any other state."""


@dataclass(frozen=True, kw_only=True)
class CloudNetwork:
    """A network that this project sees."""

    id: str
    name: str
    external: bool = False
    foreign: bool = False
    """True if it belongs to another project."""
    port_security: bool = True
    """False if its ports can have no security groups."""


@dataclass(frozen=True, kw_only=True)
class Subnet:
    """A subnet of an existing network."""

    id: str
    name: str
    network_id: str
    cidr: IPv4Network
    router: IPv4Address | None = None
    pools: tuple[tuple[IPv4Address, IPv4Address], ...] = ()
    """First and last address of each allocation pool."""


@dataclass(frozen=True, kw_only=True)
class Router:
    """A router of this project."""

    id: str
    name: str
    external_network_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of this project."""

    name: str
    addresses: frozenset[IPv4Address] = frozenset()
    network_id: str = ""
    immutable_settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that the cluster was created with, noted at the VIP's port."""


@dataclass(frozen=True, kw_only=True)
class FloatingIp:
    """A floating IP of this project."""

    address: IPv4Address
    port: str | None = None
    """Name of the port that it points at; empty when the port has no name."""
    description: str = ""
    network_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A quota: how many may exist (`UNLIMITED` for any number), and how many do."""

    limit: int
    used: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that the checks look at."""

    flavors: tuple[Flavor, ...] | None = None
    images: tuple[Image, ...] | None = None
    """Those with the wanted names; all of them when one of the names does not exist."""
    zones: frozenset[str] | None = None
    unavailable_zones: frozenset[str] = frozenset()
    """Those of the zones whose hypervisors are all disabled, such as for maintenance."""
    volume_types: frozenset[str] | None = None
    volume_zones: frozenset[str] | None = None
    """Those of Cinder, which may have other names than Nova's."""
    networks: tuple[CloudNetwork, ...] | None = None
    subnets: tuple[Subnet, ...] | None = None
    """All IPv4 subnets, when an existing network is to be used."""
    floating_ips: tuple[FloatingIp, ...] | None = None
    dns_zones: frozenset[str] | None = None
    services: frozenset[str] | None = None
    """The optional services that the catalog lists."""
    restricted_login: str | None = None
    """The setting that an application credential comes from which cannot create another one."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """By the names in `cloud.quotas.needs`."""

    servers: tuple[Server, ...] = ()
    ports: tuple[Port, ...] | None = None
    volumes: Mapping[str, int] = field(default_factory=dict)
    """Sizes in GiB of this project's volumes, by their names."""
    types_of_volumes: Mapping[str, str] = field(default_factory=dict)
    volumes_in_error: frozenset[str] = frozenset()
    boot_volumes: Mapping[str, int] = field(default_factory=dict)
    """Sizes in GiB of the volumes that servers boot from, by the servers' IDs."""
    routers: tuple[Router, ...] | None = None
    router_interfaces: Mapping[str, frozenset[str]] | None = None
    """IDs of the routers with an interface in a subnet of the existing network, by the subnet's."""
    security_groups: Mapping[str, int] = field(default_factory=dict)
    """Number of rules, by the group's name."""
    server_groups: frozenset[str] = frozenset()

    @property
    def network_names(self) -> Mapping[str, str]:
        """The names of the networks, by their IDs."""
        return {network.id: network.name for network in self.networks or ()}
