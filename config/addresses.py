"""The addresses in `hostCidr`, computed so that they never have to be looked up.

Offsets from the network address are the same for every size of network and every number of
machines, so a machine that is added, removed or replaced never changes the address of another:

| offset        | address of                                                          |
|---------------|---------------------------------------------------------------------|
| 1             | the router                                                          |
| 10            | the VIP, which gateways share by VRRP; the floating IP points at it |
| 11 to 14      | gateways                                                            |
| 21 to 25      | control planes: always five, whatever `controlPlaneCount` is        |
| 32 to the end | Neutron's allocation pool: workers, and Neutron's own DHCP ports    |
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

MAX_GATEWAYS = 4
MAX_CONTROL_PLANES = 5

_ROUTER = 1
_VIP = 10
_FIRST_GATEWAY = 11
_FIRST_CONTROL_PLANE = 21
_FIRST_WORKER = 32

# Neutron runs up to this many DHCP agents for a network (dhcp_agents_per_network in HA clouds);
# each takes an address of the pool.
DHCP_PORTS = 3

# The smallest network with room for a worker: /27 ends where the workers' range starts.
LONGEST_PREFIX = 26


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The addresses of one cluster."""

    network: IPv4Network
    router: IPv4Address
    vip: IPv4Address
    gateways: tuple[IPv4Address, ...]
    """Room for `MAX_GATEWAYS`; gateway *i* has the *i*-th."""
    control_planes: tuple[IPv4Address, ...]
    """Always `MAX_CONTROL_PLANES`; control plane *i* has the *i*-th."""
    pool_start: IPv4Address
    pool_end: IPv4Address
    """The last address of the pool, included."""

    @property
    def worker_capacity(self) -> int:
        """The number of workers for which there is room next to Neutron's DHCP ports."""
        return int(self.pool_end) - int(self.pool_start) + 1 - DHCP_PORTS


def addresses(host_cidr: IPv4Network) -> Addresses:
    """Lay out `host_cidr`.

    Raises:
        ValueError: the network is smaller than a /26.
    """
    if host_cidr.prefixlen > LONGEST_PREFIX:
        raise ValueError(f"must be a /{LONGEST_PREFIX} or larger")
    return Addresses(
        network=host_cidr,
        router=host_cidr[_ROUTER],
        vip=host_cidr[_VIP],
        gateways=tuple(host_cidr[_FIRST_GATEWAY + i] for i in range(MAX_GATEWAYS)),
        control_planes=tuple(
            host_cidr[_FIRST_CONTROL_PLANE + i] for i in range(MAX_CONTROL_PLANES)
        ),
        pool_start=host_cidr[_FIRST_WORKER],
        pool_end=host_cidr[-2],
    )
