"""Images by name, each with the id that it had when the name was first used."""

from __future__ import annotations

from functools import cache

import pulumi
import pulumi_openstack as openstack


@cache
def first_seen_image(name: str) -> pulumi.Output[str]:
    """The id of the image. Another one uploaded later under the same name does not change it.

    So only another name rolls the servers that boot from it.
    """
    image = openstack.images.get_image_output(name=name, most_recent=True)
    return pulumi.Stash(f"image-{name}", input=image.id).output
