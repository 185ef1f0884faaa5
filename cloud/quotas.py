"""The share of the project's quotas that a cluster needs in addition to what it has."""

from collections.abc import Mapping

from cloud.facts import Facts, Flavor, Server
from cloud.roles import Role, roles
from config.models.cluster import Cluster
from config.models.machines import etcd_volume_name
from config.security_groups import GROUPS, rules

# Neutron puts two rules for outgoing traffic (IPv4, IPv6) into every new security group.
_RULES_OF_A_NEW_GROUP = 2

# A new network has a port for the router and at least one for DHCP.
_PORTS_OF_A_NEW_NETWORK = 2


def needs(cluster: Cluster, facts: Facts) -> dict[str, int]:
    """The amount of each quota that the cluster needs beyond what it uses, by the quota's name.

    The old server is deleted before the new one is made, so a larger flavor needs the difference.
    """
    flavors = {flavor.name: flavor for flavor in facts.flavors or ()}
    planned = {name: role for role in roles(cluster) for name in role.names(cluster)}
    there = {server.name: server for server in facts.servers if server.name in planned}
    return {
        "instances": len(planned.keys() - there.keys()),
        "cores": _total(planned, flavors, "cores") - sum(s.cores for s in there.values()),
        "memory": _total(planned, flavors, "memory") - sum(s.memory for s in there.values()),
        "serverGroups": len(
            {f"{cluster.cluster_name}-{role.group}" for role in roles(cluster)}
            - facts.server_groups
        ),
        **_volumes(facts, planned, there),
        **_network(cluster, facts, planned),
    }


def _total(planned: Mapping[str, Role], flavors: Mapping[str, Flavor], attribute: str) -> int:
    known = [flavors[r.servers.flavor] for r in planned.values() if r.servers.flavor in flavors]
    return sum(getattr(flavor, attribute) for flavor in known)


def _volumes(
    facts: Facts, planned: Mapping[str, Role], there: Mapping[str, Server]
) -> dict[str, int]:
    # Boot volumes have no name; each comes and goes with its server.
    boot = {name: r.servers.volume.size for name, r in planned.items() if r.servers.volume}
    had = {
        name: facts.boot_volumes[server.id]
        for name, server in there.items()
        if name in boot and server.id in facts.boot_volumes
    }
    etcd = [
        role.etcd_volume.size
        for name, role in planned.items()
        if role.etcd_volume and etcd_volume_name(name) not in facts.volumes
    ]
    return {
        "volumes": len(boot) - len(had) + len(etcd),
        "gigabytes": sum(boot.values()) - sum(had.values()) + sum(etcd),
    }


def _network(cluster: Cluster, facts: Facts, planned: Mapping[str, Role]) -> dict[str, int]:
    name = cluster.cluster_name
    groups = {f"{name}-{group}" for group in GROUPS}
    there = {port.name for port in facts.ports or ()}
    ports = len(({*planned, cluster.vip_name}) - there)
    own_network = cluster.existing_network is None
    new_network = own_network and not any(n.name == name for n in facts.networks or ())
    # One that an interrupted update has left points at nothing yet.
    has_address = cluster.floating_ip is not None or any(
        each.port == cluster.vip_name or each.description == cluster.floating_ip_description
        for each in facts.floating_ips or ()
    )
    return {
        "ports": ports + (_PORTS_OF_A_NEW_NETWORK if new_network else 0),
        "networks": int(new_network),
        "subnets": int(new_network),
        "routers": int(own_network and all(router.name != name for router in facts.routers or ())),
        "floatingIps": int(not has_address),
        "securityGroups": len(groups - facts.security_groups.keys()),
        "securityGroupRules": max(
            0,
            len(rules(cluster))
            + len(groups) * _RULES_OF_A_NEW_GROUP
            - sum(facts.security_groups.get(group, 0) for group in groups),
        ),
    }
