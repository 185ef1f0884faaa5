"""A network with a router, servers on it and SSH to them, for the tests of the cloud."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openstack
from openstack.block_storage.v3.volume import Volume

from lab.cloud.layout import EXTERNAL_NETWORK
from lab.image import BASE_NAME
from lab.ssh_host import PATIENCE, SshHost, make_key
from lab.until import until

FLAVOR = "lab.1c1g"


@dataclass
class Server(SshHost):
    """A server with a floating IP."""

    project: Project
    id: str
    port: Any

    def wait_until(self, status: str) -> None:
        """Wait until Nova reports the status."""
        cloud = self.project.cloud
        cloud.compute.wait_for_server(
            cloud.compute.get_server(self.id), status=status, interval=0.3, wait=PATIENCE
        )


@dataclass
class Project:
    """Resources with a common prefix, which `clean` deletes, also after a failure."""

    folder: Path
    prefix: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:6]}")

    def __post_init__(self) -> None:
        # Any: the SDK's types name every version of every API at once.
        self.cloud: Any = openstack.connect()
        self._undo: list[Callable[[], Any]] = []
        network = self.cloud.network
        self.key = make_key(self.folder)
        public = self.key.with_suffix(".pub").read_text()
        self.cloud.compute.create_keypair(name=self.prefix, public_key=public)
        self.undo(lambda: self.cloud.compute.delete_keypair(self.prefix))
        self.external = network.find_network(EXTERNAL_NETWORK, ignore_missing=False)
        self.network = network.create_network(name=self.prefix)
        self.undo(lambda: network.delete_network(self.network))
        subnet = network.create_subnet(
            name=self.prefix, network_id=self.network.id, ip_version=4, cidr="10.66.0.0/24",
            # Neutron assigns addresses at random: leave out those that tests assign.
            allocation_pools=[{"start": "10.66.0.10", "end": "10.66.0.199"}],
        )  # fmt: skip
        router = network.create_router(
            name=self.prefix, external_gateway_info={"network_id": self.external.id}
        )
        self.undo(lambda: network.delete_router(router))
        network.add_interface_to_router(router, subnet=subnet.id)
        self.undo(lambda: network.remove_interface_from_router(router, subnet=subnet.id))
        self.group = network.create_security_group(name=self.prefix)
        self.undo(lambda: network.delete_security_group(self.group))
        self.open(22)

    def undo(self, action: Callable[[], Any]) -> None:
        """Add an action for `clean`."""
        self._undo.append(action)

    def clean(self) -> None:
        """Delete everything, the newest first; continue after a failure."""
        failures = []
        # All servers at once, and before their ports and volumes.
        compute = self.cloud.compute
        servers = list(compute.servers(name=f"^{self.prefix}-"))
        for server in servers:
            compute.delete_server(server)
        for server in servers:
            compute.wait_for_delete(server, interval=0.3, wait=PATIENCE)
        while self._undo:
            try:
                self._undo.pop()()
            except openstack.exceptions.SDKException as failure:
                failures.append(failure)
        if failures:
            raise ExceptionGroup("left over in the project", failures)

    def open(self, port: int) -> None:
        """Open a TCP port of every server to all."""
        self.cloud.network.create_security_group_rule(
            security_group_id=self.group.id, direction="ingress", protocol="tcp",
            port_range_min=port, port_range_max=port, remote_ip_prefix="0.0.0.0/0",
        )  # fmt: skip

    def image(self) -> str:
        """Id of the lab's plain image."""
        return str(self.cloud.image.find_image(BASE_NAME, ignore_missing=False).id)

    def start(self, name: str, *, flavor: str = FLAVOR, user_data: str = "", **more: Any) -> Server:
        """Request a server with a floating IP; `more` can make it boot from a volume."""
        name = f"{self.prefix}-{name}"
        network, compute = self.cloud.network, self.cloud.compute
        port = network.create_port(
            name=name, network_id=self.network.id, security_group_ids=[self.group.id]
        )
        self.undo(lambda: network.delete_port(port))
        address = network.create_ip(floating_network_id=self.external.id, port_id=port.id)
        self.undo(lambda: network.delete_ip(address))
        if "block_device_mapping" not in more:
            more["image_id"] = self.image()
        if user_data:
            more["user_data"] = base64.b64encode(user_data.encode()).decode()
        made = compute.create_server(
            name=name, key_name=self.prefix, networks=[{"port": port.id}],
            flavor_id=compute.find_flavor(flavor).id, **{"config_drive": True, **more},
        )  # fmt: skip
        server = Server(name, self.key, address.floating_ip_address, self, made.id, port)
        self.undo(lambda: self.delete(server))
        return server

    def server(self, name: str, **more: Any) -> Server:
        """Create a server and wait until it answers."""
        server = self.start(name, **more)
        server.wait_until("ACTIVE")
        server.wait_for_ssh()
        return server

    def delete(self, *servers: Server) -> None:
        """Delete servers and wait until they are gone."""
        compute = self.cloud.compute
        found = [there for each in servers if (there := compute.find_server(each.id))]
        for server in found:
            compute.delete_server(server)
        for server in found:
            compute.wait_for_delete(server, interval=0.3, wait=PATIENCE)

    def attach(self, server: Server, volume: Volume) -> str:
        """Attach a volume and wait until it is there; returns its device in the server."""
        self.cloud.compute.create_volume_attachment(server.id, volume_id=volume.id)
        device = f"/dev/disk/by-id/virtio-{volume.id[:20]}"
        until(lambda: not server.fails(f"test -b {device}"), "the device", PATIENCE)
        self._wait_for_volume(volume, "in-use")
        return device

    def detach(self, server: Server, volume: Volume) -> None:
        """Detach a volume from a server and wait until it is free."""
        self.cloud.compute.delete_volume_attachment(server.id, volume.id)
        self._wait_for_volume(volume, "available")

    def _wait_for_volume(self, volume: Volume, status: str) -> None:
        # Not wait_for_status, which trusts the status in the object, however old it is.
        storage = self.cloud.block_storage
        until(
            lambda: storage.get_volume(volume.id).status == status, f"the volume {status}", PATIENCE
        )

    def volume(self, name: str, **more: object) -> Volume:
        """Create a volume and wait until it is ready."""
        storage = self.cloud.block_storage
        volume = storage.create_volume(name=f"{self.prefix}-{name}", **{"size": 1, **more})

        def delete() -> None:
            found = storage.find_volume(volume.id)
            if found:
                storage.wait_for_status(found, "available", interval=0.3, wait=60)
                storage.delete_volume(volume)
                storage.wait_for_delete(volume, interval=0.3, wait=60)

        self.undo(delete)
        ready: Volume = storage.wait_for_status(volume, "available", interval=0.3, wait=PATIENCE)
        return ready
