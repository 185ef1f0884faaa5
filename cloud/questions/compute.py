"""Questions to Nova."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloud import marks
from cloud.facts import Flavor, PartialFacts, Server
from cloud.questions.limits import limits
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection


def _flavors(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {
        "flavors": tuple(
            Flavor(name=each.name, cores=each.vcpus, memory=each.ram, disk=each.disk)
            for each in cloud.compute.flavors()
        )
    }


def _zones(cloud: Connection, cluster: Cluster) -> PartialFacts:
    zones = list(cloud.compute.availability_zones())
    return {
        "zones": frozenset(zone.name for zone in zones),
        "unavailable_zones": frozenset(
            zone.name for zone in zones if not (zone.state or {}).get("available", True)
        ),
    }


def _server_groups(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {"server_groups": frozenset(group.name for group in cloud.compute.server_groups())}


def _servers(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {
        "servers": tuple(
            Server(
                name=each.name,
                cores=each.flavor.vcpus,
                memory=each.flavor.ram,
                id=each.id,
                cluster_id=marks.cluster_of(each) or "",
                error=(each.fault or {}).get("message") or "" if each.status == "ERROR" else None,
            )
            for each in cloud.compute.servers(name=f"^{cluster.cluster_name}-")
        )
    }


def _limits(cloud: Connection, cluster: Cluster) -> PartialFacts:
    found = cloud.compute.get_limits().absolute
    return {
        "limits": limits(
            {
                "instances": (found.instances, found.instances_used),
                "cores": (found.total_cores, found.total_cores_used),
                "memory": (found.total_ram, found.total_ram_used),
                "serverGroups": (found.server_groups, found.server_groups_used),
                "serverGroupMembers": (found.server_group_members, 0),
            }
        )
    }


QUESTIONS = {
    "flavors": _flavors,
    "availability zones": _zones,
    "server groups": _server_groups,
    "servers": _servers,
    "compute quota": _limits,
}
