"""Rules for the networks of machines, pods and Services: their sizes, and that they are apart."""

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_network
from itertools import combinations

from config import reserved
from config.addresses import LONGEST_PREFIX, addresses
from config.errors import Fault
from config.models.cluster import Cluster
from config.rules.rule import rule

# kube-apiserver refuses a larger Service network ("the mask must be >= 12").
_SHORTEST_SERVICE_PREFIX = 12
# Chosen by this program: fewer than 254 Services are soon used up, and the network is immutable.
_LONGEST_SERVICE_PREFIX = 24

# kubeadm and the controller manager refuse more bits between podCidr and a node's part of it.
_NODE_BITS = 16
# Loopback, link-local (with the metadata service), multicast, and the broadcast address.
SPECIAL = [
    ip_network(each)
    for each in ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32")
]

_NETWORKS = {"hostCidr": "host_cidr", "podCidr": "pod_cidr", "serviceCidr": "service_cidr"}


def _disjoint(one: str, other: str, attributes: tuple[str, str]) -> None:
    @rule(one, other)
    def check(cluster: Cluster) -> Iterator[Fault]:
        first: IPv4Network = getattr(cluster, attributes[0])
        second: IPv4Network = getattr(cluster, attributes[1])
        if first.overlaps(second):
            yield Fault(one, first, f"overlaps {other} ({second}); choose another network")


for _one, _other in combinations(_NETWORKS, 2):
    _disjoint(_one, _other, (_NETWORKS[_one], _NETWORKS[_other]))


@rule("hostCidr", "existingNetwork", "workerCount", "workerPools")
def _host_cidr_is_large_enough(cluster: Cluster) -> Iterator[Fault]:
    if cluster.host_cidr.prefixlen > LONGEST_PREFIX:
        yield Fault("hostCidr", cluster.host_cidr, f"too small; use a /{LONGEST_PREFIX} or larger")
        return
    workers = sum(pool.count for pool in cluster.pools)
    capacity = addresses(cluster.host_cidr).worker_capacity
    if cluster.existing_network is None and workers > capacity:
        prefix = next(
            length
            for length in range(cluster.host_cidr.prefixlen, 0, -1)
            if addresses(cluster.host_cidr.supernet(new_prefix=length)).worker_capacity >= workers
        )
        yield Fault(
            "hostCidr",
            cluster.host_cidr,
            f"has room for {capacity} workers, but {workers} are configured; use a /{prefix}",
        )


@rule("podCidr", "controlPlaneCount", "workerCount", "workerPools")
def _pod_cidr_is_large_enough(cluster: Cluster) -> Iterator[Fault]:
    nodes = _node_count(cluster)
    prefix = _prefix_for(nodes, of=reserved.NODE_PREFIX)
    if cluster.pod_cidr.prefixlen > prefix:
        yield Fault(
            "podCidr",
            cluster.pod_cidr,
            f"too small for {nodes} nodes, which need a /{reserved.NODE_PREFIX} each; "
            f"use a /{prefix} or larger",
        )
    largest = reserved.NODE_PREFIX - _NODE_BITS
    if cluster.pod_cidr.prefixlen < largest:
        yield Fault("podCidr", cluster.pod_cidr, f"too large; use a /{largest} or smaller")


@rule("dnsNameservers", "existingNetwork")
def _name_servers_are_distinct(cluster: Cluster) -> Iterator[Fault]:
    servers = cluster.dns_nameservers if cluster.existing_network is None else ()
    for index, server in enumerate(servers):
        if server in servers[:index]:
            yield Fault(f"dnsNameservers[{index}]", server, "is there twice; remove one of them")


@rule("dnsNameservers", "podCidr", "serviceCidr", "existingNetwork")
def _name_servers_are_no_pods(cluster: Cluster) -> Iterator[Fault]:
    servers = cluster.dns_nameservers if cluster.existing_network is None else ()
    networks = {"podCidr": cluster.pod_cidr, "serviceCidr": cluster.service_cidr}
    for index, server in enumerate(servers):
        for key in (key for key, network in networks.items() if server in network):
            yield Fault(
                f"dnsNameservers[{index}]",
                server,
                f"is in {key} ({networks[key]}): no node reaches it any more once pods have a "
                "network; change one of them",
            )


@rule("serviceCidr")
def _service_cidr_has_a_fitting_size(cluster: Cluster) -> Iterator[Fault]:
    length = cluster.service_cidr.prefixlen
    if not _SHORTEST_SERVICE_PREFIX <= length <= _LONGEST_SERVICE_PREFIX:
        yield Fault(
            "serviceCidr",
            cluster.service_cidr,
            f"must be between a /{_SHORTEST_SERVICE_PREFIX} and a /{_LONGEST_SERVICE_PREFIX}",
        )


@rule(*_NETWORKS)
def _networks_are_unicast(cluster: Cluster) -> Iterator[Fault]:
    for key, attribute in _NETWORKS.items():
        network: IPv4Network = getattr(cluster, attribute)
        if any(network.overlaps(special) for special in SPECIAL):
            yield Fault(
                key,
                network,
                "has loopback, link-local or multicast addresses; use a private network",
            )


def _node_count(cluster: Cluster) -> int:
    return cluster.control_plane_count + sum(p.count + len(p.machines) for p in cluster.pools)


def _prefix_for(count: int, of: int) -> int:
    """The longest prefix of a network that holds `count` networks with the prefix `of`."""
    return of - (count - 1).bit_length()


def warnings(cluster: Cluster) -> Iterator[str]:
    """Return warnings about settings that are allowed but probably not meant."""
    if cluster.dns_nameservers and cluster.existing_network is not None:
        yield (
            f"dnsNameservers = {', '.join(map(str, cluster.dns_nameservers))}: the subnet of "
            "existingNetwork has its own, and keeps them; remove dnsNameservers"
        )
    for key, attribute in _NETWORKS.items():
        network: IPv4Network = getattr(cluster, attribute)
        if network.is_global:
            yield (
                f"{key} = {network}: these are public addresses, and whoever has them on the "
                "internet cannot be reached from the cluster; use a private network, such as "
                f"{Cluster.model_fields[attribute].default}"
            )
