"""Compares a configuration with what the cloud has and allows: facts in, faults out."""

from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv4Address

from cloud.facts import UNLIMITED, Facts, Flavor, Image, Port, Subnet
from cloud.quotas import QUOTAS, Role, needs, roles
from config.errors import MISSING, Fault, nearest
from config.models.cluster import Cluster

# Names in a message when none of them is near.
_NAMES_SHOWN = 8
_NEAREST_SHOWN = 3

# What kubeadm's own checks want of a control plane (its constants.go).
_LEAST_CORES = 2
_LEAST_MIB = 1700


def faults(cluster: Cluster, facts: Facts) -> list[Fault]:
    """Everything of which the cloud says no."""
    found = [
        *_immutable_settings(cluster, facts),
        *_etcd_volume(cluster, facts),
        *_servers(cluster, facts),
        *_external_network(cluster, facts),
        *_existing_network(cluster, facts),
        *_floating_ip(cluster, facts),
        *_services(cluster, facts),
        *_quotas(cluster, facts),
    ]
    # Roles share flavor, image and zones through the defaults: say each thing once.
    return list(dict.fromkeys(found))


def warnings(cluster: Cluster, facts: Facts) -> Iterator[str]:
    """What the user should know, but may go on with."""
    planned = {name for role in roles(cluster) for name in role.names(cluster)}
    for server in facts.servers:
        if server.error is not None and server.name in planned:
            why = server.error.rstrip(".") or "Nova does not say why"
            # Not a fault: it would stop the very run that replaces the server.
            yield (
                f"the server {server.name} is in ERROR: {why}. "
                "An update keeps it as it is; replace it: "
                f"pulumi up --replace '**:Instance::{server.name}'"
            )


def _instead(wanted: str, known: Collection[str], what: str) -> str:
    """Names that could be meant."""
    if not known:
        return f"this project sees no {what}"
    if near := nearest(wanted, known, _NEAREST_SHOWN):
        return f"did you mean {' or '.join(near)}?"
    names = sorted(known)
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"there are {', '.join(names[:_NAMES_SHOWN])}{more}"


def _unknown(key: str, wanted: str, known: Collection[str] | None, what: str) -> Iterator[Fault]:
    if known is not None and wanted not in known:
        yield Fault(key, wanted, f"no such {what}; {_instead(wanted, known, what)}")


# Servers


def _servers(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    for role in roles(cluster):
        yield from _flavor_and_image(cluster, role, facts)
        for index, zone in enumerate(role.servers.availability_zones):
            key = f"{role.path}.availabilityZones[{index}]"
            yield from _unknown(key, zone, facts.zones, "availability zone")
        if (volume := role.servers.volume) and volume.type:
            key = f"{role.path}.volume.type"
            yield from _unknown(key, volume.type, facts.volume_types, "volume type")
    etcd = cluster.control_plane.etcd_volume
    if etcd and etcd.type:
        key = "controlPlane.etcdVolume.type"
        yield from _unknown(key, etcd.type, facts.volume_types, "volume type")


def _key(cluster: Cluster, role: Role, name: str) -> str:
    """The key that the role's flavor or image comes from."""
    index = role.path.removeprefix("workerPools[").removesuffix("]")
    settings = {
        "gateway": cluster.gateway,
        "controlPlane": cluster.control_plane,
        "worker": cluster.worker,
    }.get(role.path) or cluster.worker_pools[int(index)]
    return name if getattr(settings, name) is None else f"{role.path}.{name}"


def _flavor_and_image(cluster: Cluster, role: Role, facts: Facts) -> Iterator[Fault]:
    flavor_key, image_key = _key(cluster, role, "flavor"), _key(cluster, role, "image")
    servers = role.servers
    flavors = None if facts.flavors is None else {f.name: f for f in facts.flavors}
    yield from _unknown(flavor_key, servers.flavor, flavors, "flavor")
    names = None if facts.images is None else {i.name for i in facts.images}
    yield from _unknown(image_key, servers.image, names, "image")
    images = [i for i in facts.images or () if i.name == servers.image and i.active]
    if names is not None and servers.image in names and not images:
        yield Fault(image_key, servers.image, "is not active: its upload has not ended well")
    if len(images) > 1 and servers.volume is None:
        yield Fault(
            image_key,
            servers.image,
            f"is the name of {len(images)} images; rename all but one",
        )
    flavor = (flavors or {}).get(servers.flavor)
    if flavor and role.path == "controlPlane":
        yield from _kubeadm_fits(cluster, flavor_key, flavor)
    if flavor and len(images) == 1:
        yield from _image_fits(role, flavor_key, flavor, images[0])


def _kubeadm_fits(cluster: Cluster, key: str, flavor: Flavor) -> Iterator[Fault]:
    """What kubeadm would refuse on the machine, minutes later."""
    ignored = {name.lower() for name in cluster.kubeadm.ignore_preflight_errors}
    for check, has, least, unit in (
        ("NumCPU", flavor.cores, _LEAST_CORES, "cores"),
        ("Mem", flavor.memory, _LEAST_MIB, "MiB of RAM"),
    ):
        if has < least and not ignored & {check.lower(), "all"}:
            yield Fault(
                key,
                flavor.name,
                f"kubeadm asks for {least} {unit} on a control plane, and it has {has}; choose a "
                f"larger flavor, or name {check} in kubeadm.ignorePreflightErrors",
            )


def _image_fits(role: Role, flavor_key: str, flavor: Flavor, image: Image) -> Iterator[Fault]:
    if flavor.memory < image.least_memory:
        yield Fault(
            flavor_key,
            flavor.name,
            f"has {flavor.memory} MiB of RAM, and the image {image.name} asks for "
            f"{image.least_memory}; choose a larger flavor",
        )
    volume = role.servers.volume
    if volume is None and flavor.disk < image.least_disk:
        yield Fault(
            flavor_key,
            flavor.name,
            f"has a disk of {flavor.disk} GiB, and the image {image.name} asks for "
            f"{image.least_disk}; choose a larger flavor, or set {role.path}.volume",
        )
    if volume is not None and volume.size < image.least_disk:
        yield Fault(
            f"{role.path}.volume.size",
            volume.size,
            f"the image {image.name} asks for {image.least_disk} GiB",
        )


# Network


def _immutable_settings(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    for port in facts.ports:
        if port.name != cluster.vip_name:
            continue
        for key, value in cluster.immutable_settings.items():
            if (made_with := port.immutable_settings.get(key, value)) != value:
                yield Fault(
                    key,
                    value,
                    f"the cluster was made with {made_with}, and machines cannot change theirs; "
                    "set it back, or move to a new cluster. If nothing runs in this one yet: "
                    "pulumi destroy, then make it anew",
                )
        yield from _same_network(cluster, facts, port)


def _same_network(cluster: Cluster, facts: Facts, vip: Port) -> Iterator[Fault]:
    existing = cluster.existing_network
    wanted = existing.network if existing else cluster.cluster_name
    names = {network.id: network.name for network in facts.networks or ()}
    if (made_in := names.get(vip.network_id, wanted)) != wanted:
        yield Fault(
            "existingNetwork.network",
            existing.network if existing else MISSING,
            f"the cluster was made in the network {made_in}, and machines cannot move to another; "
            "set it back, or move to a new cluster",
        )


def _etcd_volume(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    wanted = cluster.control_plane.etcd_volume
    names = (
        f"{cluster.node_name('control-plane', i)}-etcd" for i in range(cluster.control_plane_count)
    )
    there = {name: facts.volumes[name] for name in names if name in facts.volumes}
    if not there:
        return
    if wanted is None:
        name = next(iter(there))
        yield Fault(
            "controlPlane.etcdVolume",
            MISSING,
            f"etcd's data is on the volume {name}, which would be deleted with it; set it back",
        )
        return
    # Some have it: they are being enlarged one by one, or were.
    if wanted.size not in there.values():
        name, size = next(iter(there.items()))
        yield Fault(
            "controlPlane.etcdVolume.size",
            wanted.size,
            f"the volume {name} has {size} GiB, and keeps them while etcd runs on it; "
            f"set {size}, or see 'A larger volume for etcd' in docs/operations.md",
        )


def _external_network(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    if facts.networks is None:
        return
    wanted = cluster.external_network
    external = {network.name for network in facts.networks if network.external}
    if wanted not in external and any(n.name == wanted for n in facts.networks):
        instead = _instead(wanted, external, "external network")
        yield Fault("externalNetwork", wanted, f"is not an external network; {instead}")
        return
    yield from _unknown("externalNetwork", wanted, external, "external network")


def _existing_network(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    wanted = cluster.existing_network
    if wanted is None or facts.networks is None:
        return
    networks = [network for network in facts.networks if network.name == wanted.network]
    names = {network.name for network in facts.networks}
    yield from _unknown("existingNetwork.network", wanted.network, names, "network")
    if wanted.router is not None:
        yield from _unknown("existingNetwork.router", wanted.router, facts.routers, "router")
    if len(networks) > 1:
        problem = f"is the name of {len(networks)} networks; rename all but one"
        yield Fault("existingNetwork.network", wanted.network, problem)
    if len(networks) != 1 or facts.subnets is None:
        return
    of_network = {s.name: s for s in facts.subnets if s.network_id == networks[0].id}
    what = f"IPv4 subnet of {wanted.network}"
    yield from _unknown("existingNetwork.subnet", wanted.subnet, of_network, what)
    if subnet := of_network.get(wanted.subnet):
        yield from _room_in(subnet, cluster, facts)


def _fixed(cluster: Cluster) -> dict[IPv4Address, str]:
    """The addresses that machines have by this program's choice, and their ports' names."""
    addresses = cluster.addresses
    of_gateways = zip(range(cluster.gateway_count), addresses.gateways, strict=False)
    return {
        addresses.vip: cluster.vip_name,
        **{address: cluster.node_name("gateway", i) for i, address in of_gateways},
        **{
            a: cluster.node_name("control-plane", i) for i, a in enumerate(addresses.control_planes)
        },
    }


def _room_in(subnet: Subnet, cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    host_cidr = cluster.host_cidr
    if not host_cidr.subnet_of(subnet.cidr):
        problem = f"must lie in the subnet {subnet.name}, which is {subnet.cidr}"
        yield Fault("hostCidr", host_cidr, problem)
        return
    fixed = _fixed(cluster)
    if subnet.router in fixed:
        yield Fault(
            "hostCidr",
            host_cidr,
            f"would give {subnet.router}, the subnet's router, to {fixed[subnet.router]}; "
            "choose another part of the subnet",
        )
    holders = {
        address: port.name or "a port without a name"
        for port in facts.ports
        if port.network_id == subnet.network_id
        for address in port.addresses
    }
    for address, name in fixed.items():
        if holders.get(address, name) != name:
            yield Fault(
                "hostCidr",
                host_cidr,
                f"would give {address} to {name}, but {holders[address]} has it; "
                "choose another part of the subnet",
            )
    first, last = min(fixed), max(fixed)
    for start, end in subnet.pools:
        if start <= last and first <= end:
            yield Fault(
                "hostCidr",
                host_cidr,
                f"Neutron may give {first} to {last}, which gateways and control planes need, to "
                f"others: they are in the allocation pool {start}-{end} of {subnet.name}; "
                "choose a part of the subnet outside of its pools, or change the pools",
            )


def _floating_ip(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    wanted = cluster.floating_ip
    if wanted is None or facts.floating_ips is None:
        return
    ours = cluster.vip_name
    by_address = {each.address: each for each in facts.floating_ips}
    free = [str(each.address) for each in facts.floating_ips if each.port is None]
    instead = f"free are {', '.join(sorted(free)[:_NAMES_SHOWN])}" if free else "none is free"
    instead += "; without the key a new one is made"
    if wanted not in by_address:
        yield Fault("floatingIp", wanted, f"this project has no such floating IP; {instead}")
    elif by_address[wanted].port not in (None, ours):
        whose = by_address[wanted].port or "one without a name"
        yield Fault("floatingIp", wanted, f"is taken by the port {whose}; {instead}")


# Services and quotas


def _services(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    services = facts.services
    if cluster.dns is not None:
        zone = f"{cluster.dns.zone.rstrip('.')}."
        if services is not None and "dns" not in services:
            yield Fault("dns.zone", zone, "the cloud has no DNS service (Designate); remove dns")
        else:
            yield from _unknown("dns.zone", zone, facts.dns_zones, "DNS zone")
    if services is None:
        return
    if "block-storage" not in services:
        asks = [(f"{role.path}.volume", role.servers.volume) for role in roles(cluster)]
        asks.append(("controlPlane.etcdVolume", cluster.control_plane.etcd_volume))
        for key, volume in asks:
            if volume is not None:
                problem = "the cloud has no block storage (Cinder); remove it"
                yield Fault(key, f"{volume.size} GiB", problem)
        if cluster.addons.cinder_csi.enabled:
            problem = "the cloud has no block storage (Cinder); set it to false"
            yield Fault("addons.cinderCsi.enabled", "true", problem)
    if cluster.addons.octavia and "load-balancer" not in services:
        problem = "the cloud has no load balancers (Octavia); set gateway"
        yield Fault("addons.loadBalancer", "octavia", problem)


def _quotas(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    members = facts.limits.get("serverGroupMembers")
    for role in roles(cluster):
        if members and members.limit != UNLIMITED and role.count > members.limit:
            yield Fault(
                role.count_key,
                role.count,
                f"a server group may have {members.limit} members in this project (quota "
                "server_group_members); ask for a larger quota, or make several pools",
            )
    for name, more in needs(cluster, facts).items():
        limit = facts.limits.get(name)
        if limit is None or limit.limit == UNLIMITED or more <= 0:
            continue
        free = max(0, limit.limit - limit.used)
        if more > free:
            quota = QUOTAS[name]
            yield Fault(
                _blamed(name, cluster),
                MISSING,
                f"the quota for {quota.what} is too small: {more}{quota.unit} more needed, "
                f"{free}{quota.unit} of {limit.limit}{quota.unit} free; {quota.remedy}",
            )


def _blamed(quota: str, cluster: Cluster) -> str:
    """The keys that decide how much is needed."""
    counts: Iterable[str] = (f"{role.count_key}={role.count}" for role in roles(cluster))
    if quota in ("floatingIps",):
        return "floatingIp"
    if quota in ("networks", "subnets", "routers"):
        return "existingNetwork"
    if quota in ("securityGroups", "securityGroupRules"):
        return "allowedCidrs"
    return ", ".join(counts)
