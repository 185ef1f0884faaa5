"""Servers created as fast as the cloud can, by the SDK and in parallel, and removed at the end."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openstack

from lab.cloud.layout import EXTERNAL_NETWORK

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
        self._ids: list[str] = []
        self.addresses: dict[str, str] = {}
        # The time of each request, on the monotonic clock.
        self.asked: dict[str, float] = {}

    def __exit__(self, *failure: object) -> None:
        compute = self._cloud.compute
        self._threads.shutdown(cancel_futures=True)
        with ThreadPoolExecutor(32) as threads:
            list(threads.map(compute.delete_server, self._ids))
            list(
                threads.map(
                    lambda i: (
                        compute.wait_for_delete(
                            compute.get_server(i), interval=0.3, wait=SSH_SECONDS
                        )
                        if compute.find_server(i)
                        else None
                    ),
                    self._ids,
                )
            )
        failures = []
        for undo in reversed(self._undo):
            try:
                undo()
            except openstack.exceptions.SDKException as error:
                failures.append(error)
        self._folder.cleanup()
        if failures:
            raise ExceptionGroup(f"left over in the project, named {self.name}*", failures)

    def create(self, flavors: dict[str, str]) -> None:
        """Request servers of these names and flavors; the first one has the floating IP."""
        network, folder = self._cloud.network, Path(self._folder.name)
        keypair = self._threads.submit(self._keypair, folder)
        group = self._threads.submit(self._security_group)
        own, subnet, routed = self._network()

        def port(name: str) -> Any:  # noqa: ANN401
            made = network.create_port(
                name=f"{self.name}-{name}",
                network_id=own,
                fixed_ips=[{"subnet_id": subnet}],
                security_group_ids=[group.result()],
            )
            self._undo.append(lambda: network.delete_port(made.id))
            self.addresses[name] = made.fixed_ips[0]["ip_address"]
            return made.id

        def server(name: str) -> None:
            made = port(name)
            floating_ip = None
            if name == next(iter(flavors)):
                floating_ip = self._threads.submit(self._floating_ip, made, routed)
            keypair.result()
            self.asked[name] = time.monotonic()
            asked = self._cloud.compute.create_server(
                name=f"{self.name}-{name}",
                image_id=self._image,
                flavor_id=self._flavors[flavors[name]],
                networks=[{"port": made}],
                key_name=self.name,
                config_drive=True,
            )
            self._ids.append(asked.id)
            if floating_ip is not None:
                text = CONFIG.format(user=USER, folder=folder, jump=floating_ip.result())
                (folder / "config").write_text(text)

        with ThreadPoolExecutor(32) as threads:
            list(threads.map(server, flavors))

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
        host = "jump" if name == next(iter(self.addresses), "") else self.addresses[name]
        command = ["ssh", "-F", f"{self._folder.name}/config", host, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def _keypair(self, folder: Path) -> None:
        key = str(folder / "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        public = (folder / "key.pub").read_text()
        self._cloud.compute.create_keypair(name=self.name, public_key=public)
        self._undo.insert(0, lambda: self._cloud.compute.delete_keypair(self.name))

    def _security_group(self) -> str:
        network = self._cloud.network
        group = network.create_security_group(name=self.name)
        # Deleted after the ports that are in it.
        self._undo.insert(0, lambda: network.delete_security_group(group.id))
        for source in ({"remote_group_id": group.id}, {"remote_ip_prefix": "0.0.0.0/0"}):
            network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", ether_type="IPv4", **source
            )
        return str(group.id)

    def _network(self) -> tuple[str, str, Any]:
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

    def _floating_ip(self, port: str, routed: Any) -> str:  # noqa: ANN401
        network = self._cloud.network
        made = network.create_ip(floating_network_id=routed.result(), port_id=port)
        self._undo.append(lambda: network.delete_ip(made.id))
        return str(made.floating_ip_address)
