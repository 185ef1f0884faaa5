"""A network with a way out, servers on it, SSH to them: what the tests of the cloud share."""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openstack
from openstack.block_storage.v3.volume import Volume

IMAGE = "debian-13"
FLAVOR = "lab.1c1g"
EXTERNAL = "external"
PATIENCE = 120.0


def wait_for(what: str, check: Callable[[], object], patience: float = PATIENCE) -> None:
    """Call `check` until it returns something true."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if check():
            return
        time.sleep(0.3)
    raise AssertionError(f"{what}: not within {patience:.0f} s")


BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@dataclass
class Server:
    """A server with a floating IP."""

    project: Project
    id: str
    name: str
    port: Any
    address: str

    def ssh(self, command: str, *, ok: bool = True) -> str:
        """Run a command as the image's user; its output."""
        result = self._ssh(command, timeout=10)
        if ok and result.returncode != 0:
            raise AssertionError(f"{command}: {result.returncode}: {result.stderr}")
        return result.stdout.strip()

    def fails(self, command: str) -> bool:
        """Whether a command ends with an error; a lost connection counts too."""
        return self._ssh(command, timeout=10).returncode != 0

    def wait_for_ssh(self) -> None:
        """Until a login works."""
        wait_for(f"SSH to {self.name}", lambda: self._ssh("true", timeout=2).returncode == 0)

    def wait_until(self, status: str) -> None:
        """Until Nova reports the status."""
        cloud = self.project.cloud
        cloud.compute.wait_for_server(
            cloud.compute.get_server(self.id), status=status, interval=0.3, wait=PATIENCE
        )

    def boots(self) -> str:
        """What differs after each boot; Kubernetes tells boots apart by it too."""
        return self.ssh(BOOT_ID)

    def has_booted_since(self, before: str) -> bool:
        """Whether it is up with another boot; a connection that the reboot cuts off says no."""
        return self.ssh(BOOT_ID, ok=False) not in ("", before)

    def _ssh(self, command: str, timeout: int) -> subprocess.CompletedProcess[str]:
        options = (
            "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR",
            "BatchMode=yes", f"ConnectTimeout={timeout}", "ServerAliveInterval=5",
        )  # fmt: skip
        words = [word for option in options for word in ("-o", option)]
        return subprocess.run(
            ["ssh", "-i", str(self.project.key), *words, f"debian@{self.address}", command],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@dataclass
class Project:
    """Everything has the same prefix and is deleted by `clean`, also after a failure."""

    folder: Path
    prefix: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:6]}")

    def __post_init__(self) -> None:
        # Any: the SDK's types name every version of every API at once.
        self.cloud: Any = openstack.connect()
        self._undo: list[Callable[[], Any]] = []
        network = self.cloud.network
        self.key = self.folder / "key"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True
        )
        public = self.key.with_suffix(".pub").read_text()
        self.cloud.compute.create_keypair(name=self.prefix, public_key=public)
        self.undo(lambda: self.cloud.compute.delete_keypair(self.prefix))
        self.external = network.find_network(EXTERNAL, ignore_missing=False)
        self.network = network.create_network(name=self.prefix)
        self.undo(lambda: network.delete_network(self.network))
        subnet = network.create_subnet(
            name=self.prefix, network_id=self.network.id, ip_version=4, cidr="10.66.0.0/24"
        )
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
        """Remember what `clean` has to do."""
        self._undo.append(action)

    def clean(self) -> None:
        """Delete everything, the newest first; one failure does not keep the rest."""
        failures = []
        while self._undo:
            try:
                self._undo.pop()()
            except openstack.exceptions.SDKException as failure:
                failures.append(failure)
        if failures:
            raise ExceptionGroup("left over in the project", failures)

    def open(self, port: int) -> None:
        """Let everybody reach a TCP port of every server."""
        self.cloud.network.create_security_group_rule(
            security_group_id=self.group.id, direction="ingress", protocol="tcp",
            port_range_min=port, port_range_max=port, remote_ip_prefix="0.0.0.0/0",
        )  # fmt: skip

    def image(self) -> str:
        """The lab's plain image, by its id."""
        return str(self.cloud.image.find_image(IMAGE, ignore_missing=False).id)

    def start(self, name: str, *, flavor: str = FLAVOR, user_data: str = "", **more: Any) -> Server:
        """Ask for a server with a floating IP; it boots from the image unless `more` says else."""
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
        server = Server(self, made.id, name, port, address.floating_ip_address)
        self.undo(lambda: self.delete(server))
        return server

    def server(self, name: str, **more: Any) -> Server:
        """A server that answers."""
        server = self.start(name, **more)
        server.wait_until("ACTIVE")
        server.wait_for_ssh()
        return server

    def delete(self, server: Server) -> None:
        """Delete a server and wait until it is gone."""
        compute = self.cloud.compute
        found = compute.find_server(server.id)
        if found:
            compute.delete_server(found)
            compute.wait_for_delete(found, interval=0.3, wait=PATIENCE)

    def volume(self, name: str, **more: object) -> Volume:
        """A volume that is ready."""
        storage = self.cloud.block_storage
        volume = storage.create_volume(name=f"{self.prefix}-{name}", **{"size": 1, **more})

        def delete() -> None:
            found = storage.find_volume(volume.id)
            for attachment in found.attachments if found else ():
                self.cloud.compute.delete_volume_attachment(attachment["server_id"], volume.id)
                storage.wait_for_status(found, "available", interval=0.3, wait=60)
            if found:
                storage.delete_volume(volume)
                storage.wait_for_delete(volume, interval=0.3, wait=60)

        self.undo(delete)
        ready: Volume = storage.wait_for_status(volume, "available", interval=0.3, wait=PATIENCE)
        return ready
