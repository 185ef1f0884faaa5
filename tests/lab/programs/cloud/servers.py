"""Servers from an image or a volume, with or without a group, and a data volume."""

from __future__ import annotations

import functools
from typing import Any

import pulumi
import pulumi_openstack as openstack


@functools.cache
def group(policy: str, most: int) -> openstack.compute.ServerGroup:
    """Server group of a policy; a host may have `most` of its servers."""
    rules = openstack.compute.ServerGroupRulesArgs(max_server_per_host=most) if most else None
    return openstack.compute.ServerGroup(policy, name=policy, policies=policy, rules=rules)


def server(
    name: str,
    keypair: openstack.compute.Keypair,
    port: openstack.networking.Port,
    settings: dict[str, Any],
) -> openstack.compute.Instance:
    """Server with these settings; a changed image or flavor changes it in place."""
    hints = []
    if "policy" in settings:
        made = group(settings["policy"], settings.get("most", 0))
        hints.append(openstack.compute.InstanceSchedulerHintArgs(group=made.id))
    disks = []
    if "disk" in settings:
        image = openstack.images.get_image(name=settings["image"])
        disks.append(
            openstack.compute.InstanceBlockDeviceArgs(
                uuid=image.id,
                source_type="image",
                destination_type="volume",
                boot_index=0,
                delete_on_termination=True,
                volume_size=settings["disk"],
            )
        )
    return openstack.compute.Instance(
        name,
        name=name,
        image_name=None if disks else settings["image"],
        block_devices=disks,
        flavor_name=settings["flavor"],
        key_pair=keypair.name,
        networks=[openstack.compute.InstanceNetworkArgs(port=port.id)],
        scheduler_hints=hints,
        config_drive=settings.get("configDrive", True),
        user_data=settings.get("userData"),
    )


def data_volume(attached_to: openstack.compute.Instance | None) -> None:
    """A volume that outlives its attachment."""
    volume = openstack.blockstorage.Volume("data", name="data", size=1)
    pulumi.export("volume", volume.id)
    if attached_to:
        openstack.compute.VolumeAttach(
            "data",
            instance_id=attached_to.id,
            volume_id=volume.id,
            # Cinder gives a volume to one server at a time.
            opts=pulumi.ResourceOptions(delete_before_replace=True),
        )
