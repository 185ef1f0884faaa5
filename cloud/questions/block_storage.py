"""Questions to Cinder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloud.facts import PartialFacts
from cloud.questions.limits import limits
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection


def _types(cloud: Connection, cluster: Cluster) -> PartialFacts:
    return {"volume_types": frozenset(each.name for each in cloud.block_storage.types())}


def _zones(cloud: Connection, cluster: Cluster) -> PartialFacts:
    storage: Any = cloud.block_storage  # openstacksdk may also return its second version
    zones = storage.availability_zones()
    return {"volume_zones": frozenset(zone.name for zone in zones)}


def _volumes(cloud: Connection, cluster: Cluster) -> PartialFacts:
    volumes = list(cloud.block_storage.volumes())
    return {
        "volumes": {each.name: each.size for each in volumes},
        "types_of_volumes": {each.name: each.volume_type for each in volumes if each.volume_type},
        "volumes_in_error": frozenset(each.name for each in volumes if each.status == "error"),
        "boot_volumes": {
            attachment["server_id"]: each.size
            for each in volumes
            if each.is_bootable
            for attachment in each.attachments
        },
    }


def _limits(cloud: Connection, cluster: Cluster) -> PartialFacts:
    found = cloud.block_storage.get_limits().absolute
    return {
        "limits": limits(
            {
                "volumes": (found.max_total_volumes, found.total_volumes_used),
                "gigabytes": (found.max_total_volume_gigabytes, found.total_gigabytes_used),
            }
        )
    }


QUESTIONS = {
    "volume types": _types,
    "zones of volumes": _zones,
    "volumes": _volumes,
    "volume quota": _limits,
}
