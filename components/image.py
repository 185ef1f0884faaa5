"""Images by name."""

from __future__ import annotations

from functools import cache

import pulumi
import pulumi_openstack as openstack


@cache
def newest_image(name: str) -> pulumi.Output[str]:
    """The id of the newest image of this name."""
    return openstack.images.get_image_output(name=name, most_recent=True).id
