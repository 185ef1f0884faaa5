"""Rules for machines and pools: names, addresses, labels, and what each pool consists of."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from config import reserved
from config.addresses import (
    LONGEST_PREFIX,
    MAX_CONTROL_PLANES,
    MAX_GATEWAYS,
    Addresses,
    addresses,
)
from config.errors import MISSING, Fault
from config.models.cluster import Cluster
from config.models.machines import (
    RoleSettings,
    WorkerPoolSettings,
    WorkerSettings,
)
from config.rules.networks import SPECIAL
from config.rules.rule import rule
from config.values.network import LONGEST_LABEL

# X.520: 64 characters for the common name of a certificate, which is `system:node:NAME`.
_LONGEST_CERTIFIED_NODE = 64 - len("system:node:")


@rule("flavor", "image", "gateway", "controlPlane", "worker", "workerPools", "workerCount")
def _every_role_has_flavor_and_image(cluster: Cluster) -> Iterator[Fault]:
    roles: list[tuple[str, RoleSettings]] = [
        ("gateway", cluster.gateway),
        ("controlPlane", cluster.control_plane),
    ]
    if cluster.worker_count:
        roles.append(("worker", cluster.worker))
    roles += [(key, pool) for key, pool in cluster.keyed_pools.items() if pool.count]
    for key in ("flavor", "image"):
        without = [f"{path}.{key}" for path, role in roles if getattr(role, key) is None]
        if without and getattr(cluster, key) is None:
            yield Fault(key, MISSING, f"must be set, or each of {', '.join(without)} instead")


@rule("clusterName")
def _cluster_name_is_free(cluster: Cluster) -> Iterator[Fault]:
    if cluster.cluster_name == reserved.CLUSTER:
        yield Fault(
            "clusterName",
            cluster.cluster_name,
            "is the default name of Cinder CSI and the cloud controller, by which other clusters "
            "of the project may have marked their volumes; choose another name",
        )


@rule("workerPools")
def _pool_names_are_free(cluster: Cluster) -> Iterator[Fault]:
    seen: set[str] = set()
    for path, pool in cluster.keyed_pools.items():
        key = f"{path}.name"
        if pool.name in reserved.POOLS:
            names = ", ".join(reserved.POOLS)
            yield Fault(
                key, pool.name, f"is one of the reserved names {names}; choose another name"
            )
        elif pool.name in seen:
            yield Fault(key, pool.name, "another pool has this name; choose another name")
        seen.add(pool.name)


@rule("workerPools")
def _pools_have_servers_or_machines(cluster: Cluster) -> Iterator[Fault]:
    for path, pool in cluster.keyed_pools.items():
        if not pool.machines:
            continue
        if pool.count:
            yield Fault(f"{path}.count", pool.count, "set either count or machines, not both")
        for name, key in (
            ("flavor", "flavor"),
            ("image", "image"),
            ("volume", "volume"),
            ("availability_zones", "availabilityZones"),
        ):
            if value := getattr(pool, name):
                yield Fault(
                    f"{path}.{key}",
                    value,
                    "does not apply to machines that exist already; remove it",
                )


@rule("clusterName", "workerPools")
def _machine_names_fit(cluster: Cluster) -> Iterator[Fault]:
    # The longest of the names that no key of a pool is part of.
    groups = [("clusterName", "control-plane", 1)]
    groups += [
        (f"{path}.name", pool.name, pool.count) for path, pool in cluster.keyed_pools.items()
    ]
    for key, group, count in groups:
        longest = cluster.machine_name(group, max(count - 1, 0))
        if len(longest) > LONGEST_LABEL:
            value = cluster.cluster_name if key == "clusterName" else group
            yield Fault(
                key,
                value,
                f"too long: the machine name {longest} has {len(longest)} characters, "
                f"but at most {LONGEST_LABEL} are allowed",
            )


@rule(
    *("clusterName", "workerPools", "workerCount", "controlPlaneCount", "gatewayCount", "rotation")
)
def _node_names_fit_into_certificates(cluster: Cluster) -> Iterator[Fault]:
    generation = cluster.rotation.certificate_authorities
    longest = max(cluster.machine_names, key=len)
    if generation > 1 and len(longest) > _LONGEST_CERTIFIED_NODE:
        yield Fault(
            "rotation.certificateAuthorities",
            generation,
            f"the node name {longest} has {len(longest)} characters, but openssl requests new "
            f"certificates for at most {_LONGEST_CERTIFIED_NODE} only; set it to 1, or move to a "
            "cluster with shorter names",
        )


@rule("clusterName", "workerPools", "workerCount")
def _machines_have_names_of_their_own(cluster: Cluster) -> Iterator[Fault]:
    made = {cluster.machine_name(p.name, i) for p in cluster.pools for i in range(p.count)}
    made |= {cluster.machine_name("control-plane", i) for i in range(MAX_CONTROL_PLANES)}
    made |= {cluster.machine_name("gateway", i) for i in range(MAX_GATEWAYS)}
    for key, value in _repeated(cluster, "name", made):
        yield Fault(key, value, "another machine has this name; choose another name")


@rule("hostCidr", "podCidr", "serviceCidr", "existingNetwork", "floatingIp", "workerPools")
def _machines_have_addresses_of_their_own(cluster: Cluster) -> Iterator[Fault]:
    for key, value in _repeated(cluster, "address", ()):
        yield Fault(key, value, "another machine has this address")
    of_pods = {"podCidr": cluster.pod_cidr, "serviceCidr": cluster.service_cidr}
    nowhere = {IPv4Address(0), cluster.floating_ip}
    if cluster.existing_network is None:
        nowhere |= {cluster.host_cidr.network_address, cluster.host_cidr.broadcast_address}
    for path, machine in cluster.keyed_machines.items():
        key, address = f"{path}.address", machine.address
        if address in nowhere or any(address in special for special in SPECIAL):
            yield Fault(key, address, "is no address of a machine")
        for network in (each for each, of in of_pods.items() if address in of):
            yield Fault(key, address, f"is in {network} ({of_pods[network]}); change one of them")
    if cluster.host_cidr.prefixlen > LONGEST_PREFIX:
        return
    taken = _reserved(addresses(cluster.host_cidr))
    for path, machine in cluster.keyed_machines.items():
        if owner := taken.get(machine.address):
            yield Fault(f"{path}.address", machine.address, f"is reserved for {owner} in hostCidr")


def _repeated(
    cluster: Cluster, attribute: str, taken: Iterable[object]
) -> Iterator[tuple[str, object]]:
    seen = set(taken)
    for path, machine in cluster.keyed_machines.items():
        value: object = getattr(machine, attribute)
        if value in seen:
            yield f"{path}.{attribute}", value
        seen.add(value)


def _reserved(of: Addresses) -> dict[IPv4Address, str]:
    return {
        of.router: "the router",
        of.vip: "the gateways' VIP",
        **{address: f"gateway {i}" for i, address in enumerate(of.gateways)},
        **{address: f"control plane {i}" for i, address in enumerate(of.control_planes)},
    }


@rule("worker", "workerPools")
def _taints_are_distinct(cluster: Cluster) -> Iterator[Fault]:
    for path, pool in _pools(cluster):
        seen = set()
        for index, taint in enumerate(pool.taints):
            if (taint.key, taint.effect) in seen:
                yield Fault(
                    f"{path}.taints[{index}]",
                    taint,
                    "a node has each key and effect once; remove one of them",
                )
            seen.add((taint.key, taint.effect))


def _pools(cluster: Cluster) -> Iterator[tuple[str, WorkerSettings]]:
    yield "worker", cluster.worker
    yield from cluster.keyed_pools.items()


@rule("worker", "workerPools")
def _labels_are_not_those_of_kubernetes(cluster: Cluster) -> Iterator[Fault]:
    for path, pool in _pools(cluster):
        # Of a machine that is no server of this cloud, only a person knows zone and type.
        known = isinstance(pool, WorkerPoolSettings) and pool.machines
        for label, value in pool.labels.items():
            prefix = label.rpartition("/")[0]
            if label in reserved.LABELS or (
                not known
                and (label in reserved.CLOUD_LABELS or prefix in reserved.CLOUD_LABEL_PREFIXES)
            ):
                yield Fault(
                    f'{path}.labels["{label}"]',
                    value,
                    "is a label that Kubernetes or this program sets by itself; use a label of "
                    "your own, such as example.org/pool, or a role, node-role.kubernetes.io/gpu",
                )


def warnings(cluster: Cluster) -> Iterator[str]:
    """Return warnings about settings that are allowed but probably not meant."""
    if cluster.ssh_user == "root":
        yield (
            "sshUser = root: cloud-init lets no one log in as root, unless the image says "
            "`disable_root: false`; use the user of the image, such as debian"
        )
