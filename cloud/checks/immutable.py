"""Settings that a running cluster cannot change."""

from collections.abc import Iterator

from cloud.facts import Facts, Port
from config import immutable
from config.errors import MISSING, Fault
from config.models.cluster import Cluster


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Settings that differ from those that the cluster was created with."""
    yield from _immutable_settings(cluster, facts)
    yield from _etcd_volume(cluster, facts)


def _immutable_settings(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    for port in facts.ports:
        if port.name != cluster.vip_name:
            continue
        yield from immutable.faults(port.immutable_settings, cluster.immutable_settings)
        yield from _same_network(cluster, facts, port)


def _same_network(cluster: Cluster, facts: Facts, vip: Port) -> Iterator[Fault]:
    existing = cluster.existing_network
    wanted = existing.network if existing else cluster.cluster_name
    names = {network.id: network.name for network in facts.networks or ()}
    if (made_in := names.get(vip.network_id, wanted)) != wanted:
        yield Fault(
            "existingNetwork.network",
            existing.network if existing else MISSING,
            f"the cluster was created in the network {made_in}, and machines cannot move to "
            "another; set it back, or move to a new cluster",
        )


def _etcd_volume(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    wanted = cluster.control_plane.etcd_volume
    names = (
        f"{cluster.node_name('control-plane', i)}-etcd" for i in range(cluster.control_plane_count)
    )
    existing = {name: facts.volumes[name] for name in names if name in facts.volumes}
    if not existing:
        return
    if wanted is None:
        name = next(iter(existing))
        yield Fault(
            "controlPlane.etcdVolume",
            MISSING,
            f"etcd's data is on the volume {name}, which would be deleted; set the key again",
        )
        return
    # Some have the wanted size: they are being enlarged one by one, or have been.
    if wanted.size not in existing.values():
        name, size = next(iter(existing.items()))
        yield Fault(
            "controlPlane.etcdVolume.size",
            wanted.size,
            f"the volume {name} has {size} GiB and cannot be resized while etcd uses it; "
            f"set {size}, or see 'A larger volume for etcd' in docs/operations.md",
        )
