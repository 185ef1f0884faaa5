"""Flavors, images, zones and volume types; servers that are broken."""

from collections.abc import Iterator

from cloud.checks.names import ambiguous, unknown
from cloud.facts import Facts, Flavor, Image
from cloud.roles import Role, roles
from config.errors import Fault
from config.models.cluster import Cluster

# The minimum of kubeadm's preflight checks for a control plane (its constants.go).
_LEAST_CORES = 2
_LEAST_MIB = 1700
# In the fault of a server that Nova could not place.
_NO_HOST = "No valid host"


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Servers and volumes that Nova or Cinder would refuse, or that could not run Kubernetes."""
    for role in roles(cluster):
        yield from _flavor_and_image(cluster, role, facts)
        for index, zone in enumerate(role.servers.availability_zones):
            key = f"{role.path}.availabilityZones[{index}]"
            yield from unknown(key, zone, facts.zones, "availability zone")
        if (volume := role.servers.volume) and volume.type:
            key = f"{role.path}.volume.type"
            yield from unknown(key, volume.type, facts.volume_types, "volume type")
    etcd = cluster.control_plane.etcd_volume
    if etcd and etcd.type:
        key = "controlPlane.etcdVolume.type"
        yield from unknown(key, etcd.type, facts.volume_types, "volume type")
    csi = cluster.addons.cinder_csi
    for index, each in enumerate(csi.storage_classes if csi.enabled else ()):
        if each.volume_type:
            key = f"addons.cinderCsi.storageClasses[{index}].volumeType"
            yield from unknown(key, each.volume_type, facts.volume_types, "volume type")
        if each.availability_zone:
            key = f"addons.cinderCsi.storageClasses[{index}].availabilityZone"
            yield from unknown(
                key, each.availability_zone, facts.volume_zones, "availability zone of volumes"
            )


def _flavor_and_image(cluster: Cluster, role: Role, facts: Facts) -> Iterator[Fault]:
    flavor_key, image_key = role.flavor_key, role.image_key
    servers = role.servers
    flavors = None if facts.flavors is None else {f.name: f for f in facts.flavors}
    yield from unknown(flavor_key, servers.flavor, flavors, "flavor")
    names = None if facts.images is None else {i.name for i in facts.images}
    yield from unknown(image_key, servers.image, names, "image")
    named = [i for i in facts.images or () if i.name == servers.image]
    images = [i for i in named if i.active]
    if named and not images:
        yield Fault(image_key, servers.image, "is not active: the upload is unfinished, or failed")
    # Without a boot volume, the provider refuses two, whatever their state.
    elif len(named) > 1 and servers.volume is None:
        yield from ambiguous(image_key, servers.image, len(named), "images")
    flavor = (flavors or {}).get(servers.flavor)
    there = {server.name for server in facts.servers}
    boots = servers.volume is not None or there & {*role.names(cluster)}
    if flavor and flavor.disk == 0 and not boots:
        yield Fault(
            flavor_key,
            flavor.name,
            "has no disk, and most clouds let only an administrator boot from an image with it; "
            "choose another flavor, or set `volume` for each role that has this one",
        )
    if flavor and role.path == "controlPlane":
        yield from _fits_kubeadm(cluster, flavor_key, flavor)
    if flavor and len(images) == 1:
        yield from _fits_image(role, flavor_key, flavor, images[0])


def _fits_kubeadm(cluster: Cluster, key: str, flavor: Flavor) -> Iterator[Fault]:
    """Sizes that kubeadm would refuse on the machine, minutes later."""
    ignored = {name.lower() for name in cluster.kubeadm.ignore_preflight_errors}
    for check, has, least, unit in (
        ("NumCPU", flavor.cores, _LEAST_CORES, "cores"),
        ("Mem", flavor.memory, _LEAST_MIB, "MiB of RAM"),
    ):
        if has < least and not ignored & {check.lower(), "all"}:
            yield Fault(
                key,
                flavor.name,
                f"kubeadm requires {least} {unit} on a control plane, and this flavor has {has}; "
                f"choose a larger one, or add {check} to kubeadm.ignorePreflightErrors",
            )


def _fits_image(role: Role, flavor_key: str, flavor: Flavor, image: Image) -> Iterator[Fault]:
    if flavor.memory < image.least_memory:
        yield Fault(
            flavor_key,
            flavor.name,
            f"has {flavor.memory} MiB of RAM, and the image {image.name} requires "
            f"{image.least_memory}; choose a larger flavor",
        )
    volume = role.servers.volume
    if volume is None and 0 < flavor.disk < image.least_disk:
        yield Fault(
            flavor_key,
            flavor.name,
            f"has a disk of {flavor.disk} GiB, and the image {image.name} requires "
            f"{image.least_disk}; choose a larger flavor, or set {role.path}.volume",
        )
    if volume is not None and volume.size < image.least_disk:
        yield Fault(
            f"{role.path}.volume.size",
            volume.size,
            f"too small: the image {image.name} requires {image.least_disk} GiB",
        )


def warnings(cluster: Cluster, facts: Facts) -> Iterator[str]:
    """Servers and etcd's volumes in an error state, and zones in which no server can be made."""
    used = {zone for role in roles(cluster) for zone in role.servers.availability_zones}
    # Not a fault: the other zones may need this very run.
    for zone in sorted(used & facts.unavailable_zones):
        yield (
            f"the availability zone {zone} is not available: no server can be created or replaced "
            "there until the cloud enables its hypervisors again"
        )
    if (
        cluster.control_plane.etcd_volume is not None
        and not cluster.control_plane.availability_zones
        and len(facts.zones or ()) > 1
    ):
        yield (
            "controlPlane.etcdVolume: the cloud chooses the zones of servers and of volumes. If it "
            "attaches no volume in another zone, set controlPlane.availabilityZones before the "
            "cluster is created"
        )
    planned = {name: role for role in roles(cluster) for name in role.names(cluster)}
    for server in facts.servers:
        if server.error is not None and server.name in planned:
            role = planned[server.name]
            why = server.error.rstrip(". ") or "Nova does not say why"
            # Not a fault: it would stop the very run that replaces the server.
            yield (
                f"the server {server.name} is in ERROR: {why}. "
                "An update does not repair it; stop it if it ever ran (openstack server stop "
                f"{server.name}), and replace it: pulumi up --replace '**:Instance::{server.name}'"
            )
            if _NO_HOST in why and role.server_group_policy == "anti-affinity":
                yield (
                    f"{role.path}.serverGroupPolicy = anti-affinity: each machine of this role "
                    "needs a hypervisor of its own. If the cloud has none left for "
                    f"{server.name}, set it to soft-anti-affinity: an update then replaces them "
                    "in turn"
                )
    for volume in sorted({*cluster.etcd_volume_names} & facts.volumes_in_error):
        yield (
            f"the volume {volume} is in the state error, and no update repairs it; if it has never "
            f"held etcd's data: openstack volume delete {volume}, then pulumi up --refresh"
        )
