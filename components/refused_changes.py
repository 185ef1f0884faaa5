"""Changes that a running cluster cannot follow, judged by its last outputs.

A refusal is a ConfigError that names the key, its value and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from components.authorities import Phase
from components.last_outputs import (
    ETCD_VOLUME,
    EXISTING_NETWORK,
    EXTERNAL_NETWORK,
    ZONES,
    LastOutputs,
    control_plane_zones,
)
from config import immutable
from config.addresses import MAX_CONTROL_PLANES
from config.errors import MISSING, ConfigError, Fault
from config.kubernetes_version import version_change_faults
from config.models.cluster import Cluster

_ANY_ZONE = "whichever zone the cloud chooses"
_FOLLOWING = {
    Phase.ISSUE: Phase.USE,
    Phase.USE: Phase.FORGET,
    Phase.DONE: Phase.DONE,
}


def check_name(last: LastOutputs, cluster: Cluster) -> None:
    """Refuse another cluster name: every resource is known by it."""
    ending = cluster.machine_name("control-plane", 0).removeprefix(cluster.cluster_name)
    if not last.machines or f"{cluster.cluster_name}{ending}" in last.machines:
        return
    names = (name.removesuffix(ending) for name in last.machines if name.endswith(ending))
    before = min(names, key=len)
    problem = (
        f"the cluster of this stack is {before}; under another name all of it would be deleted and "
        f"recreated; set {before}, or create a new stack"
    )
    raise ConfigError([Fault("clusterName", cluster.cluster_name, problem)])


def check(last: LastOutputs, cluster: Cluster) -> None:
    """Refuse, with every reason, a configuration that would make another cluster of this one."""
    faults = [
        *version_change_faults(last.kubernetes_version, cluster.kubernetes_version),
        *_settings(last.immutable_settings, cluster),
        *_host_keys(last, cluster),
        *_floating_ip(last, cluster),
        *_control_planes_of_an_upgrade(last, cluster),
        *_renamed_machines(last.node_at, cluster),
    ]
    if faults:
        raise ConfigError(faults)


def check_cluster_id(
    last: LastOutputs, cluster: Cluster, *, own: object, of_this_name: AbstractSet[str]
) -> None:
    """Refuse, for a new cluster, the name of another stack's, whose ID is not its own."""
    # An ID that is still to be made is no text.
    others = sorted(of_this_name - {own if isinstance(own, str) else ""})
    if last.machines or not others:
        return
    problem = (
        f"this project has servers of another cluster of this name, {', '.join(others)}; set "
        "another name, or delete them if no stack has them"
    )
    raise ConfigError([Fault("clusterName", cluster.cluster_name, problem)])


def check_ssh_key(last: LastOutputs, *keys: object) -> None:
    """Refuse keys without the one that machines got."""
    if last.ssh_key_checksum is None or last.ssh_key_generation(keys) is not None:
        return
    problem = (
        "this is not the text of the key that the machines got; to replace that one, set it as "
        "previousSshPrivateKey, or else set it again (or the number rotation.sshKey, which must "
        "never go back): see 'Your own SSH key' in docs/operations.md"
    )
    raise ConfigError([Fault("sshPrivateKey", MISSING, problem)])


def check_network(last: LastOutputs, key: str, name: str, found: str) -> str:
    """Refuse another network of this name than the one that is noted; returns its ID."""
    made_in = last.immutable_settings.get(key, found)
    if made_in != found:
        raise ConfigError([Fault(key, name, _cannot_move(f"the network {made_in}"))])
    return found


def authorities_phase(last: LastOutputs, newest: int) -> Phase:
    """The phase after the last one; a rotation begins only when the one before it is done."""
    if last.authorities is None:
        return Phase.DONE
    generation, phase = last.authorities
    if newest == generation:
        return _FOLLOWING[Phase(phase)]
    if newest == generation + 1 and phase == Phase.DONE:
        return Phase.ISSUE
    if newest < generation:
        problem = f"it must never go back; set it to {generation} or more"
    elif phase != Phase.DONE:
        problem = f"the rotation to {generation} is not done: set it to {generation}, run pulumi up"
    else:
        problem = f"the cluster has {generation}: set it to {generation + 1} first"
    raise ConfigError([Fault("rotation.certificateAuthorities", newest, problem)])


def _settings(previous: Mapping[str, str], cluster: Cluster) -> Iterator[Fault]:
    """The changes that `cloud.checks.immutable` refuses, and other zones, without the cloud."""
    yield from immutable.faults(previous, cluster.immutable_settings)
    existing = cluster.existing_network
    if EXISTING_NETWORK in previous and existing is None:
        yield Fault(
            EXISTING_NETWORK, MISSING, _cannot_move(f"the network {previous[EXISTING_NETWORK]}")
        )
    elif EXTERNAL_NETWORK in previous and existing is not None:
        yield Fault(EXISTING_NETWORK, existing.network, _cannot_move("a network of its own"))
    if ETCD_VOLUME in previous and cluster.control_plane.etcd_volume is None:
        problem = "etcd's data is on volumes, which would be deleted; set the key again"
        yield Fault(ETCD_VOLUME, MISSING, problem)
    # They are noted from the first update with etcd volumes on.
    elif ZONES in previous:
        yield from _other_zones(previous[ZONES].split(","), cluster)


def _other_zones(before: Sequence[str], cluster: Cluster) -> Iterator[Fault]:
    """The first control plane that would leave the zone of its etcd volume, which stays there."""
    # New control planes get new volumes, and those of the ones that leave go with them.
    for index, (made_in, wanted) in enumerate(
        zip(before, control_plane_zones(cluster), strict=False)
    ):
        if made_in != wanted:
            name = cluster.machine_name("control-plane", index)
            problem = (
                f"the etcd volume of {name} was created in {made_in or _ANY_ZONE}, and its server "
                f"would move to {wanted or _ANY_ZONE}; set the key back, or move to a new cluster"
            )
            value = ", ".join(cluster.control_plane.availability_zones) or MISSING
            yield Fault(ZONES, value, problem)
            return


def _host_keys(last: LastOutputs, cluster: Cluster) -> Iterator[Fault]:
    """A number that no connection of the last update's commands could follow."""
    shown, wanted = last.host_keys, cluster.rotation.host_keys
    if shown is None or shown == wanted:
        return
    if wanted < shown:
        problem = f"it must never go back; set it to {shown} or more"
    elif wanted > shown + 1:
        problem = f"the servers show {shown}: set it to {shown + 1} and run pulumi up first"
    else:
        return
    yield Fault("rotation.hostKeys", wanted, problem)


def _floating_ip(last: LastOutputs, cluster: Cluster) -> Iterator[Fault]:
    """Another address, which moves before the nodes that leave are drained through the last one."""
    leaving = {*last.node_at.values()} - set(cluster.machine_names)
    wanted = cluster.floating_ip
    if wanted and last.floating_ip and str(wanted) != last.floating_ip and leaving:
        yield Fault("floatingIp", wanted, _cannot_leave(leaving, "floatingIp"))


def _control_planes_of_an_upgrade(last: LastOutputs, cluster: Cluster) -> Iterator[Fault]:
    """Those that leave, with the last version: next to them kubeadm upgrades no add-on."""
    if last.kubernetes_version in (None, cluster.kubernetes_version):
        return
    count = cluster.control_plane_count
    leaving = {
        cluster.machine_name("control-plane", index) for index in range(count, MAX_CONTROL_PLANES)
    } & last.machines
    if leaving:
        yield Fault("controlPlaneCount", count, _cannot_leave(leaving, "kubernetesVersion"))


def _renamed_machines(node_at: Mapping[str, str], cluster: Cluster) -> Iterator[Fault]:
    """New names of machines that are nodes: the drain of the old one would reset the new one."""
    for key, machine in cluster.keyed_machines.items():
        name = node_at.get(str(machine.address), machine.name)
        if name != machine.name:
            problem = (
                f"the machine at {machine.address} is the node {name}: take it out of the "
                "configuration, run pulumi up, and then add it under its new name"
            )
            yield Fault(f"{key}.name", machine.name, problem)


def _cannot_move(made_in: str) -> str:
    return (
        f"the cluster was created in {made_in} and cannot move to another; set it back, or move to "
        "a new cluster"
    )


def _cannot_leave(machines: AbstractSet[str], changed: str) -> str:
    return (
        f"{', '.join(sorted(machines))} cannot leave together with a change of {changed}: set the "
        "number of machines to what it was, run pulumi up, and then lower it"
    )
