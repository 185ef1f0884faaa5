"""Questions to Designate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection


def _zones(cloud: Connection, cluster: Cluster) -> dict[str, Any]:
    if cluster.dns is None:
        return {}
    return {"dns_zones": frozenset(zone.name for zone in cloud.dns.zones())}


QUESTIONS = {"DNS zones": _zones}
