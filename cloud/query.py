"""Asks the cloud's services for the facts, each in a thread of its own; changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any

from cloud import facts, marks
from cloud.facts import Facts, Limit
from cloud.login import CloudLogin, connect
from cloud.roles import roles
from config import immutable
from config.models.cluster import Cluster
from config.models.network import ExistingNetwork

if TYPE_CHECKING:
    from openstack.connection import Connection

Warn = Callable[[str], None]
# Some fields of `Facts`.
PartialFacts = dict[str, Any]

_OPTIONAL_SERVICES = ("block-storage", "dns", "load-balancer")

# Owners of a router's ports in the subnets that it connects; its port outside has another one.
_ROUTER_INTERFACES = ("network:router_interface", "network:ha_router_replicated_interface")

# What the cluster has of a quota is in these fields, which come with another answer than the quota.
_COUNTED_IN = {
    "serverGroups": {"server_groups"},
    "ports": {"ports", "networks"},
    "floatingIps": {"floating_ips"},
    "networks": {"networks"},
    "subnets": {"networks"},
    "routers": {"routers"},
    "securityGroups": {"security_groups"},
    "securityGroupRules": {"security_groups"},
}


def query(login: CloudLogin, cluster: Cluster, *, warn: Warn) -> Facts:
    """Everything that the checks of `cloud.checks` need.

    What the cloud refuses to tell is left out, with a warning.

    Raises:
        ConfigError: when the cloud does not answer a login, or refuses the credentials.
    """
    # The import takes half a second, which a run without cloud checks need not spend.
    from cloud.errors import CLOUD_ERRORS

    cloud = connect(login)
    services = frozenset(name for name in _OPTIONAL_SERVICES if cloud.has_service(name))
    questions: list[tuple[str, Callable[[Connection, Cluster], PartialFacts]]] = [
        ("compute", _compute),
        ("compute limits", _compute_limits),
        ("image", _images),
        ("network", _networks),
        ("ports, and the hostCidr of other clusters", _ports),
        ("network quota", _network_limits),
    ]
    if "block-storage" in services:
        questions += [("block storage", _volumes)]
    if "dns" in services and cluster.dns is not None:
        questions += [("DNS", _dns_zones)]

    def ask(question: tuple[str, Callable[[Connection, Cluster], PartialFacts]]) -> PartialFacts:
        name, answer = question
        try:
            return answer(cloud, cluster)
        except CLOUD_ERRORS as error:
            warn(f"cloud checks: {name}: not checked, because the cloud did not answer: {error}")
            return {}

    with ThreadPoolExecutor(max_workers=len(questions)) as threads:
        answers = list(threads.map(ask, questions))
    limits: dict[str, Limit] = {}
    merged: PartialFacts = {"services": services}
    for answer in answers:
        limits |= answer.pop("limits", {})
        merged |= answer
    # Without that answer, all that the cluster has would count as still needed.
    usable = {
        name: limit
        for name, limit in limits.items()
        if _COUNTED_IN.get(name, set()) <= merged.keys()
    }
    return Facts(**merged, limits=usable)


def _prefix(cluster: Cluster) -> str:
    return f"{cluster.cluster_name}-"


def _limits(pairs: Mapping[str, tuple[Any, Any]]) -> dict[str, Limit]:
    """Limits from pairs of limit and usage; one that the service leaves out does not exist."""
    return {
        name: Limit(limit=int(limit), used=int(used or 0))
        for name, (limit, used) in pairs.items()
        if limit is not None
    }


def _compute(cloud: Connection, cluster: Cluster) -> PartialFacts:
    zones = list(cloud.compute.availability_zones())
    return {
        "flavors": tuple(
            facts.Flavor(name=each.name, cores=each.vcpus, memory=each.ram, disk=each.disk)
            for each in cloud.compute.flavors()
        ),
        "zones": frozenset(zone.name for zone in zones),
        "unavailable_zones": frozenset(
            zone.name for zone in zones if not (zone.state or {}).get("available", True)
        ),
        "server_groups": frozenset(group.name for group in cloud.compute.server_groups()),
    }


def _compute_limits(cloud: Connection, cluster: Cluster) -> PartialFacts:
    limits = cloud.compute.get_limits().absolute
    return {
        "servers": tuple(
            facts.Server(
                name=each.name,
                cores=each.flavor.vcpus,
                memory=each.flavor.ram,
                id=each.id,
                cluster_id=marks.cluster_of(each) or "",
                error=(each.fault or {}).get("message", "") if each.status == "ERROR" else None,
            )
            for each in cloud.compute.servers(name=f"^{_prefix(cluster)}")
        ),
        "limits": _limits(
            {
                "instances": (limits.instances, limits.instances_used),
                "cores": (limits.total_cores, limits.total_cores_used),
                "memory": (limits.total_ram, limits.total_ram_used),
                "serverGroups": (limits.server_groups, limits.server_groups_used),
                "serverGroupMembers": (limits.server_group_members, 0),
            }
        ),
    }


def _images(cloud: Connection, cluster: Cluster) -> PartialFacts:
    wanted = {role.servers.image for role in roles(cluster)}
    found = [image for name in wanted for image in cloud.image.images(name=name)]
    if wanted - {image.name for image in found}:
        found = list(cloud.image.images())
    return {
        "images": tuple(
            facts.Image(
                name=each.name or "",
                active=each.status == "active",
                least_disk=max(each.min_disk or 0, math.ceil((each.virtual_size or 0) / 2**30)),
                least_memory=each.min_ram or 0,
            )
            for each in found
        )
    }


def _networks(cloud: Connection, cluster: Cluster) -> PartialFacts:
    networks = tuple(
        facts.CloudNetwork(
            id=each.id,
            name=each.name,
            external=bool(each.is_router_external),
            foreign=each.project_id != cloud.current_project_id,
        )
        for each in cloud.network.networks()
    )
    return {
        "networks": networks,
        "subnets": _subnets(cloud, cluster.existing_network, networks),
        "routers": frozenset(
            each.name for each in cloud.network.routers(project_id=cloud.current_project_id)
        ),
        "security_groups": {
            each.name: len(each.security_group_rules)
            for each in cloud.network.security_groups(project_id=cloud.current_project_id)
            if each.name.startswith(_prefix(cluster))
        },
    }


def _subnets(
    cloud: Connection, existing: ExistingNetwork | None, networks: Iterable[facts.CloudNetwork]
) -> tuple[facts.Subnet, ...]:
    if existing is None:
        return ()
    own = {each.id for each in networks if each.name == existing.network and not each.foreign}
    routed = {
        ip["subnet_id"]
        for network in own
        for port in cloud.network.ports(network_id=network, fields=["device_owner", "fixed_ips"])
        if port.device_owner.startswith(_ROUTER_INTERFACES)
        for ip in port.fixed_ips
    }
    return tuple(
        facts.Subnet(
            id=each.id,
            name=each.name,
            network_id=each.network_id,
            cidr=IPv4Network(each.cidr),
            router=IPv4Address(each.gateway_ip) if each.gateway_ip else None,
            pools=tuple(
                (IPv4Address(pool["start"]), IPv4Address(pool["end"]))
                for pool in each.allocation_pools
            ),
            routed=each.id in routed if each.network_id in own else None,
        )
        for each in cloud.network.subnets(ip_version=4)
    )


def _ports(cloud: Connection, cluster: Cluster) -> PartialFacts:
    ports = list(
        cloud.network.ports(
            fields=["id", "name", "fixed_ips", "network_id", "description"],
            project_id=cloud.current_project_id,
        )
    )
    # A port may have no name; a floating IP that points at it is taken all the same.
    names = {port.id: port.name or "" for port in ports}
    return {
        "ports": tuple(
            facts.Port(
                name=each.name or "",
                addresses=frozenset(
                    IPv4Address(ip["ip_address"])
                    for ip in each.fixed_ips or ()
                    if ":" not in ip["ip_address"]
                ),
                network_id=each.network_id,
                immutable_settings=immutable.read(each.description or ""),
            )
            for each in ports
        ),
        "floating_ips": tuple(
            facts.FloatingIp(
                address=IPv4Address(each.floating_ip_address),
                port=None if each.port_id is None else names.get(each.port_id, ""),
                description=each.description or "",
                network_id=each.floating_network_id,
            )
            for each in cloud.network.ips(project_id=cloud.current_project_id)
        ),
    }


def _network_limits(cloud: Connection, cluster: Cluster) -> PartialFacts:
    quota = cloud.network.get_quota(cloud.current_project_id or "", details=True)
    pairs = {
        "ports": quota.ports,
        "networks": quota.networks,
        "subnets": quota.subnets,
        "routers": quota.routers,
        "floatingIps": quota.floating_ips,
        "securityGroups": quota.security_groups,
        "securityGroupRules": quota.security_group_rules,
    }
    return {
        "limits": _limits(
            {name: (each["limit"], each["used"]) for name, each in pairs.items() if each}
        )
    }


def _volumes(cloud: Connection, cluster: Cluster) -> PartialFacts:
    limits = cloud.block_storage.get_limits().absolute
    volumes = list(cloud.block_storage.volumes())
    return {
        "volume_types": frozenset(each.name for each in cloud.block_storage.types()),
        "volumes": {each.name: each.size for each in volumes},
        "types_of_volumes": {each.name: each.volume_type for each in volumes if each.volume_type},
        "volumes_in_error": frozenset(each.name for each in volumes if each.status == "error"),
        "boot_volumes": {
            attachment["server_id"]: each.size
            for each in volumes
            if each.is_bootable
            for attachment in each.attachments
        },
        "limits": _limits(
            {
                "volumes": (limits.max_total_volumes, limits.total_volumes_used),
                "gigabytes": (limits.max_total_volume_gigabytes, limits.total_gigabytes_used),
            }
        ),
    }


def _dns_zones(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {"dns_zones": frozenset(zone.name for zone in cloud.dns.zones())}
