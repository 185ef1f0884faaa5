"""One server with its port, its volumes and its first contact: what every role shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_openstack as openstack

from components.image import first_seen_image
from components.network import Network
from components.pki import HostKeys, Pki
from components.ssh import Script, SshTarget, connection, scripts
from components.user_data import cloud_config
from config.models.machines import Servers
from config.models.surroundings import PackageMirrors


@dataclass(frozen=True, kw_only=True)
class MachineArgs:
    """What a server is made of. `address` None lets Neutron choose from the workers' range."""

    name: str
    role: str
    # Its number among those that are made alike.
    index: int
    cluster_name: str
    settings: Servers
    network: Network
    security_groups: Sequence[str]
    ssh_user: str
    pki: Pki
    package_mirrors: PackageMirrors
    address: str | None = None
    # Addresses that may move to this machine beside its own.
    moving_addresses: Sequence[str] = ()
    server_group: openstack.compute.ServerGroup | None = None
    host_keys: HostKeys | None = None
    boot_files: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    boot_packages: Sequence[str] = ()
    boot_commands: Sequence[Sequence[str]] = ()
    # What the server itself waits for: its predecessors when many change.
    predecessors: pulumi.Input[Sequence[pulumi.Resource]] = ()


def server_group(
    name: str, policy: str, opts: pulumi.ResourceOptions
) -> openstack.compute.ServerGroup:
    """The group of servers that are made alike."""
    return openstack.compute.ServerGroup(
        name,
        name=name,
        policies=policy,
        opts=pulumi.ResourceOptions.merge(
            opts,
            # Another policy is another group. Deleted first, it would take all of its servers
            # along; made first, they move over in predecessors.
            pulumi.ResourceOptions(delete_before_replace=False),
        ),
    )


class Machine:
    """The resources of one server. A replaced server keeps its port and so its address."""

    def __init__(self, args: MachineArgs, opts: pulumi.ResourceOptions) -> None:
        self.name = args.name
        self._args = args
        self._opts = opts
        self._zone = args.settings.availability_zone(args.index)
        self.keys = args.host_keys or HostKeys(args.name, opts)
        self.port = self._port()
        self.address: pulumi.Output[str] = (
            pulumi.Output.from_input(args.address)
            if args.address is not None
            else self.port.all_fixed_ips.apply(lambda addresses: addresses[0])
        )
        self.server = self._server()
        # As the cloud controller writes it into the Node.
        self.provider_id: pulumi.Output[str] = self.server.id.apply(
            lambda server: f"openstack:///{server}"
        )

    def login(self, host_key: pulumi.Input[str]) -> SshTarget:
        """How to log in on the machine, by its own address."""
        return SshTarget(
            address=self.address,
            user=self._args.ssh_user,
            private_key=self._args.pki.ssh_private_key,
            host_key=host_key,
        )

    def install_host_key(
        self, to: SshTarget, *, via: SshTarget | None, after: Sequence[pulumi.Resource]
    ) -> Script:
        """Give the machine its real SSH host key, over the one-time key. Once for each server."""
        return Script(
            f"{self.name}-host-key",
            "host-key/host-key.sh",
            "install",
            login=connection(to, via=via),
            files={
                **scripts("lib", "host-key"),
                "node.env": f"NODE_NAME='{self.name}'\n",
                "host_key": self.keys.real.private_key_openssh,
                "host_key.pub": self.keys.real.public_key_openssh,
            },
            triggers=[self.server.id],
            seconds=300,
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                pulumi.ResourceOptions(
                    depends_on=[self.server, *after],
                    # The one-time key is gone after the first contact: nothing but a new server
                    # may run this again.
                    ignore_changes=["connection", "create", "stdin"],
                ),
            ),
        )

    def volume(self, purpose: str, size: int, kind: str | None) -> openstack.compute.VolumeAttach:
        """A volume of its own for the machine, `size` in GiB, attached to it."""
        volume = openstack.blockstorage.Volume(
            f"{self.name}-{purpose}",
            name=f"{self.name}-{purpose}",
            size=size,
            volume_type=kind,
            availability_zone=self._zone,
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                # Another zone, or one that Cinder chose itself, would delete it with all that it
                # holds: on every machine at once, before any of them has left the cluster. Another
                # size is for volumes that are made from then on.
                pulumi.ResourceOptions(ignore_changes=["availabilityZone", "size"]),
            ),
        )
        return openstack.compute.VolumeAttach(
            f"{self.name}-{purpose}",
            instance_id=self.server.id,
            volume_id=volume.id,
            opts=pulumi.ResourceOptions.merge(
                self._opts, pulumi.ResourceOptions(delete_before_replace=True)
            ),
        )

    def _port(self) -> openstack.networking.Port:
        args = self._args
        return openstack.networking.Port(
            args.name,
            name=args.name,
            network_id=args.network.network_id,
            admin_state_up=True,
            fixed_ips=[
                openstack.networking.PortFixedIpArgs(
                    subnet_id=args.network.subnet_id, ip_address=args.address
                )
            ],
            security_group_ids=[args.network.security_groups[g].id for g in args.security_groups],
            allowed_address_pairs=[
                openstack.networking.PortAllowedAddressPairArgs(ip_address=address)
                for address in args.moving_addresses
            ],
            opts=self._opts,
        )

    def _server(self) -> openstack.compute.Instance:
        args = self._args
        text: pulumi.Output[str] = pulumi.Output.all(
            public=args.pki.ssh_public_key,
            host_key=self.keys.one_time.private_key_openssh,
            host_public_key=self.keys.one_time.public_key_openssh,
            files=dict(args.boot_files),
        ).apply(
            lambda v: cloud_config(
                name=args.name,
                user=args.ssh_user,
                ssh_public_key=v["public"],
                host_key=v["host_key"],
                host_public_key=v["host_public_key"],
                files=v["files"],
                mirrors=args.package_mirrors,
                packages=args.boot_packages,
                commands=args.boot_commands,
            )
        )
        secret_text: pulumi.Output[str] = pulumi.Output.secret(text)
        volume = args.settings.volume
        return openstack.compute.Instance(
            args.name,
            name=args.name,
            flavor_name=args.settings.flavor,
            image_name=args.settings.image if volume is None else None,
            block_devices=[]
            if volume is None
            else [
                openstack.compute.InstanceBlockDeviceArgs(
                    uuid=first_seen_image(args.settings.image),
                    source_type="image",
                    destination_type="volume",
                    boot_index=0,
                    delete_on_termination=True,
                    volume_size=volume.size,
                    volume_type=volume.type,
                )
            ],
            availability_zone=self._zone,
            networks=[openstack.compute.InstanceNetworkArgs(port=self.port.id)],
            scheduler_hints=[]
            if args.server_group is None
            else [openstack.compute.InstanceSchedulerHintArgs(group=args.server_group.id)],
            metadata={"cluster": args.cluster_name, "role": args.role},
            user_data=secret_text,
            config_drive=True,
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                pulumi.ResourceOptions(
                    depends_on=_later(args.predecessors, args.network.ready),
                    delete_before_replace=True,
                    # Nova's own answer to these is an in-place rebuild or resize of all at once.
                    replace_on_changes=["imageName", "imageId", "flavorName", "flavorId"],
                    # A new text for user_data must not cost a running server.
                    ignore_changes=["userData"],
                ),
            ),
        )


def _later(
    predecessors: pulumi.Input[Sequence[pulumi.Resource]], always: Sequence[pulumi.Resource]
) -> pulumi.Output[list[pulumi.Resource]]:
    return pulumi.Output.from_input(predecessors).apply(lambda resources: [*resources, *always])
