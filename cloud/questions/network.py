"""Questions to Neutron."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from cloud.facts import CloudNetwork, FloatingIp, PartialFacts, Port, Router, Subnet
from cloud.questions.limits import limits
from config import immutable
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection

# Owners of a router's ports in the subnets that it connects; its port outside has another one.
_ROUTER_INTERFACES = ("network:router_interface", "network:ha_router_replicated_interface")


def _networks(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {
        "networks": tuple(
            CloudNetwork(
                id=each.id,
                name=each.name,
                external=bool(each.is_router_external),
                foreign=each.project_id != cloud.current_project_id,
                port_security=each.is_port_security_enabled is not False,
            )
            for each in cloud.network.networks()
        )
    }


def _subnets(cloud: Connection, cluster: Cluster) -> PartialFacts:
    if cluster.existing_network is None:
        return {"subnets": ()}
    return {
        "subnets": tuple(
            Subnet(
                id=each.id,
                name=each.name,
                network_id=each.network_id,
                cidr=IPv4Network(each.cidr),
                router=IPv4Address(each.gateway_ip) if each.gateway_ip else None,
                pools=tuple(
                    (IPv4Address(pool["start"]), IPv4Address(pool["end"]))
                    for pool in each.allocation_pools
                ),
            )
            for each in cloud.network.subnets(ip_version=4)
        )
    }


def _router_interfaces(cloud: Connection, cluster: Cluster) -> PartialFacts:
    existing = cluster.existing_network
    if existing is None:
        return {}
    own = {"name": existing.network, "project_id": cloud.current_project_id}
    fields = ["device_id", "device_owner", "fixed_ips"]
    found: dict[str, set[str]] = {}
    for network in cloud.network.networks(**own):
        for port in cloud.network.ports(network_id=network.id, fields=fields):
            if port.device_owner.startswith(_ROUTER_INTERFACES):
                for ip in port.fixed_ips:
                    found.setdefault(ip["subnet_id"], set()).add(port.device_id)
    return {"router_interfaces": {subnet: frozenset(ids) for subnet, ids in found.items()}}


def _routers(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {
        "routers": tuple(
            Router(
                id=each.id,
                name=each.name,
                external_network_id=(each.external_gateway_info or {}).get("network_id"),
            )
            for each in cloud.network.routers(project_id=cloud.current_project_id)
        )
    }


def _security_groups(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {
        "security_groups": {
            each.name: len(each.security_group_rules)
            for each in cloud.network.security_groups(project_id=cloud.current_project_id)
            if each.name.startswith(f"{cluster.cluster_name}-")
        }
    }


def _ports(cloud: Connection, cluster: Cluster) -> PartialFacts:
    fields = ["name", "fixed_ips", "network_id", "description"]
    return {
        "ports": tuple(
            Port(
                name=each.name or "",
                addresses=frozenset(
                    IPv4Address(ip["ip_address"])
                    for ip in each.fixed_ips or ()
                    if ":" not in ip["ip_address"]
                ),
                network_id=each.network_id,
                immutable_settings=immutable.read(each.description or ""),
            )
            for each in cloud.network.ports(fields=fields, project_id=cloud.current_project_id)
        )
    }


def _floating_ips(cloud: Connection, cluster: Cluster) -> PartialFacts:
    own = cloud.current_project_id
    # A port may have no name; a floating IP that points at it is taken all the same.
    names = {
        port.id: port.name or ""
        for port in cloud.network.ports(fields=["id", "name"], project_id=own)
    }
    return {
        "floating_ips": tuple(
            FloatingIp(
                address=IPv4Address(each.floating_ip_address),
                port=None if each.port_id is None else names.get(each.port_id, ""),
                description=each.description or "",
                network_id=each.floating_network_id,
            )
            for each in cloud.network.ips(project_id=own)
            if ":" not in each.floating_ip_address
        )
    }


def _limits(cloud: Connection, cluster: Cluster) -> PartialFacts:
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
        "limits": limits(
            {name: (each["limit"], each["used"]) for name, each in pairs.items() if each}
        )
    }


QUESTIONS = {
    "networks": _networks,
    "subnets": _subnets,
    "interfaces of routers": _router_interfaces,
    "routers": _routers,
    "security groups": _security_groups,
    "ports, and the hostCidr of other clusters": _ports,
    "floating IPs": _floating_ips,
    "network quota": _limits,
}
