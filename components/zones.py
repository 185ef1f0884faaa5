"""The availability zones of Nova and Cinder, which are often not the same ones."""

from __future__ import annotations

from collections.abc import Callable

import pulumi
import pulumi_openstack as openstack

_STATES = ("available", "unavailable")


def zone_of_cinder(zone: str) -> pulumi.Output[str | None]:
    """The zone if Cinder has it, too: many clouds have several for servers and one for volumes."""
    return _of_volumes().apply(lambda known: zone if zone in known else None)


def cinder_has_novas_zones() -> pulumi.Output[bool]:
    """True if every zone that has servers has volumes of its own as well."""
    of_servers = _named(
        lambda state: openstack.compute.get_availability_zones_output(state=state).names
    )
    return pulumi.Output.all(of_servers, _of_volumes()).apply(lambda both: both[0] <= both[1])


def _of_volumes() -> pulumi.Output[frozenset[str]]:
    return _named(
        lambda state: openstack.blockstorage.get_availability_zones_v3_output(state=state).names
    )


def _named(ask: Callable[[str], pulumi.Output[list[str]]]) -> pulumi.Output[frozenset[str]]:
    # The provider may leave an empty list out.
    return pulumi.Output.all(*(ask(state) for state in _STATES)).apply(
        lambda lists: frozenset(zone for each in lists for zone in each or ())
    )
