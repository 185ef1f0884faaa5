"""Other clusters of this program in the project, by the ports of their VIPs and their servers."""

from collections.abc import Collection, Iterator
from ipaddress import IPv4Network

from cloud.facts import Facts, Port
from config.cluster_id import name_in
from config.errors import Fault
from config.models.cluster import VIP_SUFFIX, Cluster

# The number of networks to try in search of a free one.
_TRIES = 4096


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """A new cluster's `hostCidr` that overlaps with another one's.

    A running cluster cannot change its own any more, so it is left alone.
    """
    if not is_new(cluster, facts):
        return
    others = {port.name: found for port in facts.ports or () if (found := _noted(port, "hostCidr"))}
    for vip_name, network in others.items():
        if network.overlaps(cluster.host_cidr):
            yield Fault(
                "hostCidr",
                cluster.host_cidr,
                f"overlaps with {network} of the cluster {vip_name.removesuffix(VIP_SUFFIX)} in "
                f"this project; {_proposal(cluster, others.values())}",
            )
    yield from _addresses_of_pods(cluster, facts)


def _addresses_of_pods(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """A subnet that a cluster in the same network uses inside of itself.

    Its machines would take a packet to one of ours for one to a pod or a Service of their own.
    """
    if (wanted := cluster.existing_network) is None:
        return
    shared = {each.id for each in facts.networks or () if each.name == wanted.network}
    named = (each for each in facts.subnets or () if each.name == wanted.subnet)
    # Workers have addresses anywhere in it.
    ours = next((each.cidr for each in named if each.network_id in shared), cluster.host_cidr)
    for port in facts.ports or ():
        for key in ("podCidr", "serviceCidr"):
            network = _noted(port, key)
            if port.network_id in shared and network and network.overlaps(ours):
                yield Fault(
                    "existingNetwork.subnet",
                    wanted.subnet,
                    f"{ours} overlaps with {network}, the {key} of the cluster "
                    f"{port.name.removesuffix(VIP_SUFFIX)} in the same network; choose another one",
                )


def is_new(cluster: Cluster, facts: Facts) -> bool:
    """True until the port of its VIP is there, one of the first resources of a cluster.

    A cluster whose ports the cloud does not tell may be running.
    """
    return facts.ports is not None and all(port.name != cluster.vip_name for port in facts.ports)


def of_this_name(cluster: Cluster, facts: Facts) -> frozenset[str]:
    """The IDs of the clusters of this name that have servers."""
    return frozenset(
        server.cluster_id
        for server in facts.servers
        if name_in(server.cluster_id) == cluster.cluster_name
    )


def _noted(port: Port, key: str) -> IPv4Network | None:
    """A network of the cluster whose VIP this port holds."""
    if not port.name.endswith(VIP_SUFFIX):
        return None
    try:
        return IPv4Network(port.immutable_settings[key])
    except (LookupError, ValueError):
        return None


def _proposal(cluster: Cluster, others: Collection[IPv4Network]) -> str:
    """The next network of the same size that is free."""
    if (existing := cluster.existing_network) is not None:
        return f"choose another part of the subnet {existing.subnet}"
    taken = (*others, cluster.pod_cidr, cluster.service_cidr)
    wanted = cluster.host_cidr
    for steps in range(1, _TRIES):
        start = wanted.network_address + steps * wanted.num_addresses
        candidate = IPv4Network((start, wanted.prefixlen))
        if not candidate.is_private:
            break
        if not any(candidate.overlaps(network) for network in taken):
            return f"set another one, such as {candidate}"
    return "set another one"
