"""A hollow machine: answers what a worker's scripts and the gateways' ask over SSH."""

from __future__ import annotations

import base64
import io
import ipaddress
import re
import shlex
import tarfile
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from bench.hollow.kubelet import Identity, Kubelet

# The settings are packed on standard input, and the scripts were sent before: components/ssh.py.
CONFIGURE = re.compile(r"\bbash \./worker/worker\.sh configure\b")
WORKER = re.compile(r"^sudo -n \S+/worker/worker\.sh (\w+)$")
NAME = re.compile(r"^sudo -n bash -c 'source \S+/node\.env; echo \$CLUSTER_NAME/\$NODE_NAME'$")
UNKNOWN = 127


def addresses(first: str, count: int) -> list[str]:
    """The addresses of so many machines."""
    return [str(ipaddress.ip_address(first) + number) for number in range(count)]


class Machine:
    """One machine, at one address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._folder = tempfile.TemporaryDirectory(prefix="hollow-")
        # Where files that it is sent are put.
        self.home = self._folder.name
        self._files: dict[str, str] = {}
        self._kubelet: Kubelet | None = None
        self._verbs: dict[str, Callable[[bytes], Coroutine[Any, Any, str]]] = {
            "state": self._state,
            "join": self._join,
            "finish": self._finish,
            "upgrade": self._upgrade,
            "reset": self._reset,
        }

    async def run(self, command: str, given: bytes) -> tuple[int, str]:
        """The exit status and the output of a command with this standard input."""
        try:
            if CONFIGURE.search(command):
                return 0, self._configure(given)
            if command.startswith("test -e "):
                return 0, "" if self._files else "missing\n"
            if NAME.search(command):
                settings = self._environment()
                return 0, f"{settings['CLUSTER_NAME']}/{settings['NODE_NAME']}\n"
            if command == "true":
                return 0, ""
            worker = WORKER.match(command)
            if worker and worker[1] in self._verbs:
                return 0, await self._verbs[worker[1]](given)
        except Exception as error:
            return 1, f"{type(error).__name__}: {error}\n"
        return UNKNOWN, f"a hollow machine does not know `{command}`\n"

    async def stop(self) -> None:
        """End it."""
        if self._kubelet is not None:
            await self._kubelet.stop()
        self._folder.cleanup()

    def _configure(self, given: bytes) -> str:
        packed = io.BytesIO(base64.decodebytes(given))
        with tarfile.open(fileobj=packed, mode="r:gz") as tar:
            for name in ("node.env", "kubeadm-join.yaml", "ca.crt"):
                content = tar.extractfile(name)
                if content is None:
                    raise ValueError(f"{name} is not a file")
                self._files[name] = content.read().decode()
        return "configured\n"

    async def _state(self, _: bytes) -> str:
        return "joined\n" if self._kubelet else "new\n"

    async def _join(self, discovery: bytes) -> str:
        token: str = yaml.safe_load(discovery)["users"][0]["user"]["token"]
        await self._reset(b"")
        kubelet = Kubelet(self.identity(), Path(self.home))
        await kubelet.join(token)
        self._kubelet = kubelet
        return "joined\n"

    async def _finish(self, _: bytes) -> str:
        if self._kubelet is None:
            raise ValueError("no join was interrupted on this machine")
        await self._kubelet.register()
        return ""

    async def _upgrade(self, _: bytes) -> str:
        if self._kubelet is None:
            raise ValueError("this machine is not in a cluster")
        version = self._environment()["KUBERNETES_VERSION"]
        self._kubelet.identity = replace(self._kubelet.identity, version=version)
        await self._kubelet.report()
        return "upgraded\n"

    async def _reset(self, _: bytes) -> str:
        kubelet, self._kubelet = self._kubelet, None
        if kubelet is not None:
            await kubelet.stop()
        return "reset\n"

    def _environment(self) -> dict[str, str]:
        lines = shlex.split(self._files["node.env"])
        return dict(line.split("=", 1) for line in lines)

    def identity(self) -> Identity:
        """The node that it becomes, by the files that it was sent."""
        environment = self._environment()
        registration = next(
            document["nodeRegistration"]
            for document in yaml.safe_load_all(self._files["kubeadm-join.yaml"])
            if document["kind"] == "JoinConfiguration"
        )
        extra = {each["name"]: each["value"] for each in registration["kubeletExtraArgs"]}
        addresses = environment["CONTROL_PLANE_ADDRESSES"].split()
        return Identity(
            name=environment["NODE_NAME"],
            address=self.address,
            version=environment["KUBERNETES_VERSION"],
            servers=[f"https://{address}:{environment['API_PORT']}" for address in addresses],
            authority=self._files["ca.crt"],
            provider_id=extra.get("provider-id"),
            taints=registration["taints"],
        )
