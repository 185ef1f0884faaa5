"""Questions to Glance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cloud.facts import Image, PartialFacts
from cloud.roles import roles
from config.models.cluster import Cluster

if TYPE_CHECKING:
    from openstack.connection import Connection


def _images(cloud: Connection, cluster: Cluster) -> PartialFacts:
    wanted = {role.servers.image for role in roles(cluster)}
    found = [image for name in wanted for image in cloud.image.images(name=name)]
    if wanted - {image.name for image in found}:
        found = list(cloud.image.images())
    return {
        "images": tuple(
            Image(
                name=each.name or "",
                active=each.status == "active",
                least_disk=max(each.min_disk or 0, math.ceil((each.virtual_size or 0) / 2**30)),
                least_memory=each.min_ram or 0,
            )
            for each in found
        )
    }


QUESTIONS = {"images": _images}
