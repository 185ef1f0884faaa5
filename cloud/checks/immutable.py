"""Settings that a running cluster cannot change."""

from collections.abc import Iterator, Mapping

from cloud.checks.clusters import is_new
from cloud.facts import Facts, Port
from config import immutable
from config.errors import MISSING, Fault
from config.models.cluster import Cluster


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Settings that differ from those that the cluster was created with."""
    yield from _immutable_settings(cluster, facts)
    yield from _same_external_network(cluster, facts)
    yield from _etcd_volume(cluster, facts)


def _immutable_settings(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    for port in facts.ports or ():
        if port.name != cluster.vip_name:
            continue
        yield from immutable.faults(port.immutable_settings, cluster.immutable_settings)
        yield from _same_network(cluster, facts, port)


def _same_network(cluster: Cluster, facts: Facts, vip: Port) -> Iterator[Fault]:
    existing = cluster.existing_network
    wanted = existing.network if existing else cluster.cluster_name
    if (made_in := facts.network_names.get(vip.network_id, wanted)) != wanted:
        yield Fault(
            "existingNetwork.network",
            existing.network if existing else MISSING,
            f"the cluster was created in the network {made_in}, and machines cannot move to "
            "another; set it back, or move to a new cluster",
        )


def _same_external_network(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Neutron keeps a router in the external network of the floating IPs behind it."""
    if cluster.existing_network is not None:
        return
    wanted = cluster.external_network
    for each in facts.floating_ips or ():
        made_in = facts.network_names.get(each.network_id, wanted)
        if each.port == cluster.vip_name and made_in != wanted:
            yield Fault(
                "externalNetwork",
                wanted,
                f"the cluster's floating IP is of {made_in}, and so its router cannot move to "
                "another network; set it back, or move to a new cluster",
            )


def _etcd_volume(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    # A new cluster makes volumes of its own next to those that an earlier one has left.
    if is_new(cluster, facts):
        return
    wanted = cluster.control_plane.etcd_volume
    names = cluster.etcd_volume_names
    sizes = {name: facts.volumes[name] for name in names if name in facts.volumes}
    types = {n: facts.types_of_volumes[n] for n in sizes if n in facts.types_of_volumes}
    if wanted is not None:
        resized = "has {} GiB and cannot be resized while etcd uses it"
        yield from _changed_by_hand("size", wanted.size, sizes, resized)
        moved = "is of the type {}, and all of them would move at once"
        yield from _changed_by_hand("type", wanted.type, types, moved)
    elif sizes:
        name = next(iter(sizes))
        yield Fault(
            "controlPlane.etcdVolume",
            MISSING,
            f"etcd's data is on the volume {name}, which would be deleted; set the key again",
        )


def _changed_by_hand(
    key: str, wanted: object, found: Mapping[str, object], problem: str
) -> Iterator[Fault]:
    """The fault of a value that no volume has: as soon as one has it, someone is changing them."""
    if wanted is None or not found or wanted in found.values():
        return
    name, value = next(iter(found.items()))
    yield Fault(
        f"controlPlane.etcdVolume.{key}",
        wanted,
        f"the volume {name} {problem.format(value)}; "
        f"set {value}, or see 'A larger volume for etcd' in docs/operations.md",
    )
