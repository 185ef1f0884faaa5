"""Servers created as fast as the cloud can, by the SDK and in parallel, and removed at the end."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openstack

from lab.cloud.layout import EXTERNAL_NETWORK
from lab.ssh_host import make_key

CIDR = "10.77.0.0/24"
SSH_SECONDS = 300.0
USER = "debian"
CONFIG = """\
Host *
  User {user}
  IdentityFile {folder}/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  BatchMode yes
  ConnectTimeout 3
  ServerAliveInterval 5
Host jump
  HostName {jump}
Host !jump *
  ProxyCommand ssh -F {folder}/config -W %h:%p jump
"""


class Servers(AbstractContextManager["Servers"]):
    """A network whose servers are reached through the first one; leaving the block removes all."""

    def __init__(self, name: str, image: str) -> None:
        self.name = name
        # Any: the SDK's types name every version of every API at once.
        self._cloud: Any = openstack.connect()
        self._image = self._cloud.image.find_image(image, ignore_missing=False).id
        self._flavors = {flavor.name: flavor.id for flavor in self._cloud.compute.flavors()}
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self._undo: list[Callable[[], object]] = []
        self._threads = ThreadPoolExecutor(32)
        self._ids: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        # The time of each request, on the monotonic clock.
        self.asked: dict[str, float] = {}
        self.ssh_config = Path(self._folder.name) / "config"
        self.floating_ip = ""

    def __exit__(self, *failure: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        with ThreadPoolExecutor(32) as threads:
            deletions = [threads.submit(self.delete, name) for name in list(self._ids)]
        failures = []
        for undo in (*(each.result for each in deletions), *reversed(self._undo)):
            try:
                undo()
            except openstack.exceptions.SDKException as error:
                failures.append(error)
        self._folder.cleanup()
        if failures:
            raise ExceptionGroup(f"left over in the project, named {self.name}*", failures)

    def create(self, flavors: dict[str, str]) -> None:
        """Request servers of these names and flavors; the first one has the floating IP."""
        self._keypair = self._threads.submit(self._make_keypair)
        self._group = self._threads.submit(self._make_security_group)
        self._network, self._subnet, self._outside = self._make_network()
        self._jump = next(iter(flavors))
        self.add(flavors)

    def add(self, flavors: dict[str, str]) -> None:
        """Request more servers in the same network."""
        with ThreadPoolExecutor(32) as threads:
            list(threads.map(self._server, flavors, flavors.values()))

    def delete(self, name: str) -> None:
        """Delete a server and wait until it is gone; its address stays reserved."""
        compute, server = self._cloud.compute, self._ids.pop(name)
        compute.delete_server(server)
        if there := compute.find_server(server):
            compute.wait_for_delete(there, interval=0.3, wait=SSH_SECONDS)

    def wait_for_ssh(self, name: str) -> None:
        """Wait until an SSH login works."""
        end = time.monotonic() + SSH_SECONDS
        while self._ssh(name, ["true"], "").returncode != 0:
            if time.monotonic() > end:
                raise TimeoutError(f"no SSH login on {name} within {SSH_SECONDS:.0f} s")
            time.sleep(0.3)

    def script(self, name: str, text: str) -> str:
        """Run a script as root; returns its output."""
        result = self._ssh(name, ["sudo", "bash", "-e"], text)
        if result.returncode != 0:
            raise RuntimeError(f"{name}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
        return result.stdout

    def _ssh(self, name: str, words: Sequence[str], stdin: str) -> subprocess.CompletedProcess[str]:
        host = "jump" if name == self._jump else self.addresses[name]
        command = ["ssh", "-F", str(self.ssh_config), host, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def _server(self, name: str, flavor: str) -> None:
        port = self._make_port(name)
        reached = None
        if name == self._jump:
            reached = self._threads.submit(self._make_floating_ip, port)
        self._keypair.result()
        self.asked[name] = time.monotonic()
        asked = self._cloud.compute.create_server(
            name=f"{self.name}-{name}",
            image_id=self._image,
            flavor_id=self._flavors[flavor],
            networks=[{"port": port}],
            key_name=self.name,
            config_drive=True,
        )
        self._ids[name] = asked.id
        if reached is not None:
            self.floating_ip = reached.result()
            text = CONFIG.format(user=USER, folder=self._folder.name, jump=self.floating_ip)
            self.ssh_config.write_text(text)

    def _make_keypair(self) -> None:
        public = make_key(Path(self._folder.name)).with_suffix(".pub").read_text()
        self._cloud.compute.create_keypair(name=self.name, public_key=public)
        self._undo.insert(0, lambda: self._cloud.compute.delete_keypair(self.name))

    def _make_port(self, name: str) -> str:
        network = self._cloud.network
        made = network.create_port(
            name=f"{self.name}-{name}",
            network_id=self._network,
            fixed_ips=[{"subnet_id": self._subnet}],
            security_group_ids=[self._group.result()],
        )
        self._undo.append(lambda: network.delete_port(made.id))
        self.addresses[name] = made.fixed_ips[0]["ip_address"]
        return str(made.id)

    def _make_security_group(self) -> str:
        network = self._cloud.network
        group = network.create_security_group(name=self.name)
        # Deleted after the ports that are in it.
        self._undo.insert(0, lambda: network.delete_security_group(group.id))
        for source in ({"remote_group_id": group.id}, {"remote_ip_prefix": "0.0.0.0/0"}):
            network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", ether_type="IPv4", **source
            )
        return str(group.id)

    def _make_network(self) -> tuple[str, str, Future[str]]:
        network = self._cloud.network
        own = network.create_network(name=self.name)
        self._undo.append(lambda: network.delete_network(own.id))
        subnet = network.create_subnet(name=self.name, network_id=own.id, ip_version=4, cidr=CIDR)

        def route() -> str:
            outside = network.find_network(EXTERNAL_NETWORK, ignore_missing=False).id
            router = network.create_router(
                name=self.name, external_gateway_info={"network_id": outside}
            )
            self._undo.append(lambda: network.delete_router(router.id))
            network.add_interface_to_router(router.id, subnet_id=subnet.id)
            self._undo.append(
                lambda: network.remove_interface_from_router(router.id, subnet_id=subnet.id)
            )
            return str(outside)

        return own.id, subnet.id, self._threads.submit(route)

    def _make_floating_ip(self, port: str) -> str:
        network = self._cloud.network
        made = network.create_ip(floating_network_id=self._outside.result(), port_id=port)
        self._undo.append(lambda: network.delete_ip(made.id))
        return str(made.floating_ip_address)
