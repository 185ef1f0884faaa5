"""One server with its port, its volumes and its SSH host key: the same for every role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pulumi
import pulumi_openstack as openstack

from cloud import marks
from components.context import Context
from components.host_key import (
    HOST_KEY_SECONDS,
    OneTimeHostKey,
    host_key_files,
    permanent_host_keys,
    show_host_key,
)
from components.image import newest_image
from components.key_pair import KeyPair
from components.machine_login import MachineLogin
from components.outputs import also
from components.ssh import Script, ScriptSource, SshTarget, connection
from components.ssh_key import accept_ssh_key
from components.user_data import user_data
from components.zones import zone_of_cinder
from config.models.machines import Servers, Volume, etcd_volume_name

# Metadata of a server: the generation of the SSH key that it was created with, if not the first.
_SSH_KEY = "sshKey"
# Metadata of a server: the public half of its one-time host key.
_ONE_TIME_HOST_KEY = "oneTimeHostKey"


@dataclass(frozen=True, kw_only=True)
class ServerArgs:
    """One server. `address` None lets Neutron choose from the workers' range."""

    name: str
    role: str
    # Its number among the servers of its kind.
    index: int
    servers: Servers
    security_groups: Sequence[str]
    address: str | None = None
    # Addresses that may move to this machine, in addition to its own.
    moving_addresses: Sequence[str] = ()
    server_group: openstack.compute.ServerGroup
    # The permanent ones; None: its own.
    host_keys: Sequence[KeyPair] | None = None
    boot_files: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    boot_packages: Sequence[str] = ()
    boot_commands: Sequence[Sequence[str]] = ()
    # By the rollout order.
    predecessors: pulumi.Output[list[pulumi.Resource]]


def server_group(
    name: str, policy: str, opts: pulumi.ResourceOptions
) -> openstack.compute.ServerGroup:
    """The group of the servers of one kind, which are spread over hypervisors."""
    return openstack.compute.ServerGroup(
        name,
        name=name,
        policies=policy,
        opts=pulumi.ResourceOptions.merge(
            opts,
            # Another policy is another group. Deleted first, it would take all of its servers
            # along; created first, they move over in turn.
            pulumi.ResourceOptions(delete_before_replace=False),
        ),
    )


class Server:
    """The resources of one server. A replaced one keeps its port and so its address."""

    def __init__(self, context: Context, args: ServerArgs, opts: pulumi.ResourceOptions) -> None:
        self.name = args.name
        self._context = context
        self._args = args
        self._opts = opts
        self._zone = args.servers.availability_zone(args.index)
        # Every generation: the first one first.
        self.host_keys = args.host_keys or permanent_host_keys(
            args.name, context.cluster.rotation.host_keys, opts
        )
        self.port = self._port()
        self.address: pulumi.Output[str] = (
            pulumi.Output.from_input(args.address)
            if args.address is not None
            else self.port.all_fixed_ips.apply(_ipv4)
        )
        # The engine ignores it, unless it creates the server.
        new = OneTimeHostKey.generate()
        self.instance = self._instance(new)
        # That of this very server, whichever run has created it. No machine shows the new one in
        # its place.
        self._one_time_host_key: pulumi.Output[str] = self.instance.metadata.apply(
            lambda metadata: (metadata or {}).get(_ONE_TIME_HOST_KEY, new.public)
        )
        # The only one that it accepts at first.
        self._first_ssh_key: pulumi.Output[str] = pulumi.Output.all(
            self.instance.metadata, *(key.private for key in context.pki.ssh_keys)
        ).apply(lambda values: _generation(values[1:], int((values[0] or {}).get(_SSH_KEY, 1))))
        # As the cloud controller writes it into the Node.
        self.provider_id: pulumi.Output[str] = self.instance.id.apply(
            lambda server: f"openstack:///{server}"
        )

    def login(self, *, via: SshTarget | None, to: SshTarget | None = None) -> MachineLogin:
        """The way to the machine: at its own address, unless `to` is another one."""
        at_its_address = SshTarget(
            address=self.address,
            user=self._context.cluster.ssh_user,
            private_key=self._context.pki.ssh_private_key,
            host_key=self.host_keys[-1].public,
        )
        return MachineLogin(
            name=self.name,
            to=to or at_its_address,
            via=via,
            machine_id=self.instance.id,
            host_keys=self.host_keys,
        )

    def take_newest_keys(
        self, login: MachineLogin, *, after: Sequence[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        """Have it show the newest host key and accept the newest SSH key, whichever it has."""
        installed = self._install_host_key(login, after)
        shown = show_host_key(self._context, login, after=[installed], opts=self._opts)
        accepted = accept_ssh_key(self._context, login, after=[installed, *shown], opts=self._opts)
        return [installed, *shown, *accepted]

    def _install_host_key(self, login: MachineLogin, after: Sequence[pulumi.Resource]) -> Script:
        """Replace the one-time SSH host key by the permanent one, once for each server."""
        first = replace(login.to, host_key=self._one_time_host_key, private_key=self._first_ssh_key)
        return Script(
            f"{self.name}-host-key",
            "host-key/host-key.sh install",
            target=connection(first, via=login.via),
            files=host_key_files(login),
            source=ScriptSource.STDIN,
            triggers=[self.instance.id],
            seconds=HOST_KEY_SECONDS,
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                pulumi.ResourceOptions(
                    depends_on=[self.instance, *after],
                    # The one-time key is gone afterwards: only a new server may run this again.
                    ignore_changes=["connection", "create", "stdin"],
                ),
            ),
        )

    def attach_etcd_volume(self, settings: Volume) -> openstack.compute.VolumeAttach:
        """Attach the volume of etcd's data, which outlives the server; returns the attachment."""
        name = etcd_volume_name(self.name)
        volume = openstack.blockstorage.Volume(
            name,
            name=name,
            size=settings.size,
            volume_type=settings.type,
            availability_zone=None if self._zone is None else zone_of_cinder(self._zone),
            # By it, `commands.recover` knows the volume from that of another cluster of this name.
            metadata={marks.CLUSTER: self._context.pki.cluster_id},
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                # Another zone, or one that Cinder chose itself, would delete it with all that it
                # holds: on every machine at once, before any of them has left the cluster. Another
                # type would move the data of all of them at once. Another size is for volumes that
                # are created from then on, and so is the mark.
                pulumi.ResourceOptions(
                    ignore_changes=["availabilityZone", "size", "volumeType", "metadata"],
                    protect=self._context.cluster.deletion_protection,
                ),
            ),
        )
        return openstack.compute.VolumeAttach(
            name,
            instance_id=self.instance.id,
            volume_id=volume.id,
            opts=pulumi.ResourceOptions.merge(
                self._opts, pulumi.ResourceOptions(delete_before_replace=True)
            ),
        )

    def _port(self) -> openstack.networking.Port:
        args, network = self._args, self._context.network
        return openstack.networking.Port(
            args.name,
            name=args.name,
            network_id=network.network_id,
            admin_state_up=True,
            fixed_ips=[
                openstack.networking.PortFixedIpArgs(
                    subnet_id=network.subnet_id, ip_address=args.address
                )
            ],
            security_group_ids=[
                network.security_groups[group].id for group in args.security_groups
            ],
            allowed_address_pairs=[
                openstack.networking.PortAllowedAddressPairArgs(ip_address=address)
                for address in args.moving_addresses
            ],
            opts=self._opts,
        )

    def _instance(self, one_time: OneTimeHostKey) -> openstack.compute.Instance:
        args, context = self._args, self._context
        volume = args.servers.volume
        generation = len(context.pki.ssh_keys)
        return openstack.compute.Instance(
            args.name,
            name=args.name,
            flavor_name=args.servers.flavor,
            image_name=args.servers.image if volume is None else None,
            block_devices=[]
            if volume is None
            else [
                openstack.compute.InstanceBlockDeviceArgs(
                    uuid=newest_image(args.servers.image),
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
            scheduler_hints=[
                openstack.compute.InstanceSchedulerHintArgs(group=args.server_group.id)
            ],
            metadata={
                marks.CLUSTER: context.pki.cluster_id,
                "role": args.role,
                _ONE_TIME_HOST_KEY: one_time.public,
                **({_SSH_KEY: str(generation)} if generation > 1 else {}),
            },
            user_data=self._user_data(one_time),
            config_drive=True,
            opts=pulumi.ResourceOptions.merge(
                self._opts,
                pulumi.ResourceOptions(
                    depends_on=also(args.predecessors, *context.network.ready),
                    delete_before_replace=True,
                    # Nova's own answer to these is an in-place rebuild or resize of all at once.
                    replacement_trigger=_made_from(args.servers),
                    # A new text for user_data must not cost a running server, nor an image or a
                    # flavor that the cloud replaces: a refresh finds another name then, or none.
                    ignore_changes=[
                        "flavorName",
                        "imageName",
                        "blockDevices",
                        "userData",
                        f"metadata.{_ONE_TIME_HOST_KEY}",
                        f"metadata.{_SSH_KEY}",
                    ],
                ),
            ),
        )

    def _user_data(self, one_time: OneTimeHostKey) -> pulumi.Output[str]:
        args, context = self._args, self._context
        text: pulumi.Output[str] = pulumi.Output.all(
            public=context.pki.ssh_public_key,
            files=dict(args.boot_files),
        ).apply(
            lambda v: user_data(
                name=args.name,
                user=context.cluster.ssh_user,
                ssh_public_key=v["public"],
                host_key=one_time.private,
                host_public_key=one_time.public,
                files=v["files"],
                mirrors=context.cluster.package_mirrors,
                packages=args.boot_packages,
                commands=args.boot_commands,
            )
        )
        return pulumi.Output.secret(text)


def _ipv4(addresses: Sequence[str]) -> str:
    """The address in the cluster's subnet: Neutron adds one of each IPv6 subnet with SLAAC."""
    return next(address for address in addresses if ":" not in address)


def _made_from(servers: Servers) -> str:
    """A text that changes with the name of the flavor or the image, or with the boot volume."""
    volume = servers.volume
    disk = (
        ""
        if volume is None
        else f" on a volume of {volume.size} GiB, {volume.type or 'the default type'}"
    )
    return f"{servers.flavor}, {servers.image}{disk}"


def _generation(keys: Sequence[str], number: int) -> str:
    """The key of that generation; the last one if the user's own has taken the place of all."""
    return keys[min(number, len(keys)) - 1]
