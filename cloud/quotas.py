"""What a cluster needs of the cloud's quotas, and how much of that it does not have yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cloud.facts import Facts, Flavor
from config.models.cluster import Cluster
from config.models.machines import Servers
from config.security_groups import ROLES, rules

# Neutron puts two rules for outgoing traffic (IPv4, IPv6) into every new security group.
_RULES_OF_A_NEW_GROUP = 2

# A network of our own has a port for the router and at least one for DHCP.
_PORTS_OF_A_NEW_NETWORK = 2


@dataclass(frozen=True, kw_only=True)
class Role:
    """Servers that are made alike, and the keys that say how."""

    path: str
    """Where the settings of the role are: `gateway`, `workerPools[0]`."""
    count_key: str
    group: str
    """What their names have in common, after the cluster's: `control-plane`."""
    count: int
    servers: Servers
    more_volumes: Mapping[str, int]
    """Volumes beside the one to boot from: purpose to size in GiB."""

    def names(self, cluster: Cluster) -> list[str]:
        """The servers' names."""
        return [cluster.node_name(self.group, index) for index in range(self.count)]


def roles(cluster: Cluster) -> Iterator[Role]:
    """Every role that makes servers."""
    yield Role(
        path="gateway",
        count_key="gatewayCount",
        group="gateway",
        count=cluster.gateway_count,
        servers=cluster.gateway_servers,
        more_volumes={},
    )
    etcd = cluster.control_plane.etcd_volume
    yield Role(
        path="controlPlane",
        count_key="controlPlaneCount",
        group="control-plane",
        count=cluster.control_plane_count,
        servers=cluster.control_plane_servers,
        more_volumes={} if etcd is None else {"etcd": etcd.size},
    )
    for index, pool in enumerate(cluster.pools):
        if pool.count:
            # The first one is the default pool, which has keys of its own.
            path = "worker" if index == 0 else f"workerPools[{index - 1}]"
            yield Role(
                path=path,
                count_key="workerCount" if index == 0 else f"{path}.count",
                group=pool.name,
                count=pool.count,
                servers=pool.servers,
                more_volumes={},
            )


def needs(cluster: Cluster, facts: Facts) -> dict[str, int]:
    """How much more of each quota the cluster takes than it has now, by the quota's name.

    Servers are replaced by deleting the old one first, so a change of flavor takes the difference.
    """
    flavors = {flavor.name: flavor for flavor in facts.flavors or ()}
    planned = {name: role for role in roles(cluster) for name in role.names(cluster)}
    there = {server.name: server for server in facts.servers if server.name in planned}
    new = {name: role for name, role in planned.items() if name not in there}
    return {
        "instances": len(new),
        "cores": _total(planned, flavors, "cores") - sum(s.cores for s in there.values()),
        "memory": _total(planned, flavors, "memory") - sum(s.memory for s in there.values()),
        "serverGroups": len(
            {cluster.node_name(role.group, 0).removesuffix("-0") for role in roles(cluster)}
            - facts.server_groups
        ),
        **_volumes(cluster, facts, new),
        **_network(cluster, facts, planned),
    }


def _total(planned: Mapping[str, Role], flavors: Mapping[str, Flavor], attribute: str) -> int:
    known = [flavors[r.servers.flavor] for r in planned.values() if r.servers.flavor in flavors]
    return sum(getattr(flavor, attribute) for flavor in known)


def _volumes(cluster: Cluster, facts: Facts, new: Mapping[str, Role]) -> dict[str, int]:
    # Nova gives the volumes it boots from no name; each comes and goes with its server.
    sizes = [role.servers.volume.size for role in new.values() if role.servers.volume]
    sizes += [
        size
        for role in roles(cluster)
        for name in role.names(cluster)
        for purpose, size in role.more_volumes.items()
        if f"{name}-{purpose}" not in facts.volumes
    ]
    return {"volumes": len(sizes), "gigabytes": sum(sizes)}


def _network(cluster: Cluster, facts: Facts, planned: Mapping[str, Role]) -> dict[str, int]:
    name = cluster.cluster_name
    groups = {f"{name}-{role}" for role in ROLES}
    exposure = rules(
        allowed=[str(cidr) for cidr in cluster.allowed_cidrs],
        ingress=[str(cidr) for cidr in cluster.ingress_sources],
        machines=[str(cidr) for cidr in cluster.machine_cidrs],
        gateways=cluster.gateway_count,
        ingress_ports=(80, 443),
        monitored=cluster.addons.monitoring.enabled,
        octavia=cluster.addons.octavia,
    )
    there = {port.name for port in facts.ports}
    ports = len(({*planned, cluster.vip_name}) - there)
    own_network = cluster.existing_network is None
    new_network = own_network and not any(n.name == name for n in facts.networks or ())
    has_address = cluster.floating_ip is not None or any(
        each.port == cluster.vip_name for each in facts.floating_ips or ()
    )
    return {
        "ports": ports + (_PORTS_OF_A_NEW_NETWORK if new_network else 0),
        "networks": int(new_network),
        "subnets": int(new_network),
        "routers": int(own_network and name not in facts.routers),
        "floatingIps": int(not has_address),
        "securityGroups": len(groups - facts.security_groups.keys()),
        "securityGroupRules": max(
            0,
            len(exposure)
            + len(groups) * _RULES_OF_A_NEW_GROUP
            - sum(facts.security_groups.get(group, 0) for group in groups),
        ),
    }


@dataclass(frozen=True, kw_only=True)
class Quota:
    """How a quota is named to people, and what a user can do about it."""

    what: str
    unit: str
    remedy: str


_FEWER = "ask for a larger quota, or set fewer machines"
_SMALLER = "ask for a larger quota, or set fewer machines or a smaller flavor"

QUOTAS: Mapping[str, Quota] = {
    "instances": Quota(what="instances", unit="", remedy=_FEWER),
    "cores": Quota(what="cores", unit="", remedy=_SMALLER),
    "memory": Quota(what="RAM", unit=" MiB", remedy=_SMALLER),
    "serverGroups": Quota(what="server groups", unit="", remedy="ask for a larger quota"),
    "volumes": Quota(what="volumes", unit="", remedy=_FEWER),
    "gigabytes": Quota(
        what="volume space", unit=" GiB", remedy="ask for a larger quota, or set smaller volumes"
    ),
    "ports": Quota(what="ports", unit="", remedy=_FEWER),
    "networks": Quota(
        what="networks", unit="", remedy="ask for a larger quota, or set existingNetwork"
    ),
    "subnets": Quota(
        what="subnets", unit="", remedy="ask for a larger quota, or set existingNetwork"
    ),
    "routers": Quota(
        what="routers", unit="", remedy="ask for a larger quota, or set existingNetwork"
    ),
    "floatingIps": Quota(
        what="floating IPs",
        unit="",
        remedy="release one, or set floatingIp to one that is free",
    ),
    "securityGroups": Quota(what="security groups", unit="", remedy="ask for a larger quota"),
    "securityGroupRules": Quota(
        what="security group rules",
        unit="",
        remedy="ask for a larger quota, or list fewer allowedCidrs",
    ),
}
