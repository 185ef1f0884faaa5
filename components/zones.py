"""The availability zones of Nova and Cinder, which are often not the same ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pulumi
import pulumi_openstack as openstack

from config.models.cluster import Cluster

_STATES = ("available", "unavailable")


def zone_of_cinder(zone: str) -> pulumi.Output[str | None]:
    """The zone if Cinder has it, too: many clouds have several for servers and one for volumes."""
    return _of_volumes().apply(lambda known: zone if zone in known else None)


def cinder_has_zones_of_nodes(cluster: Cluster) -> pulumi.Output[bool]:
    """True if every zone that nodes may be in has volumes of its own as well."""
    return pulumi.Output.all(_of_nodes(cluster), _of_volumes()).apply(
        lambda both: both[0] <= both[1]
    )


def _of_nodes(cluster: Cluster) -> pulumi.Output[frozenset[str]]:
    pools = (pool.servers for pool in cluster.pools if pool.count)
    chosen = [servers.availability_zones for servers in (cluster.control_plane_servers, *pools)]
    if all(chosen):
        return pulumi.Output.from_input(frozenset(chain(*chosen)))
    # Nova chooses among all of them.
    return _named(lambda state: openstack.compute.get_availability_zones_output(state=state).names)


def _of_volumes() -> pulumi.Output[frozenset[str]]:
    return _named(
        lambda state: openstack.blockstorage.get_availability_zones_v3_output(state=state).names
    )


def _named(ask: Callable[[str], pulumi.Output[list[str]]]) -> pulumi.Output[frozenset[str]]:
    # The provider may leave an empty list out.
    return pulumi.Output.all(*(ask(state) for state in _STATES)).apply(
        lambda lists: frozenset(zone for each in lists for zone in each or ())
    )
