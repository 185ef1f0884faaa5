"""Questions to Designate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloud.facts import PartialFacts
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection


def _zones(cloud: Connection, cluster: Cluster) -> PartialFacts:
    if cluster.dns is None:
        return {}
    return {"dns_zones": frozenset(zone.name for zone in cloud.dns.zones())}


QUESTIONS = {"DNS zones": _zones}
