"""SSH to the machines of a cluster, with the keys of its stack."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from commands.fleet.stacks import state
from config import ports

# The active gateway, as the SSH configuration calls it.
_ENTRANCE = "entrance"


class MachineError(Exception):
    """The text says what is wrong and what to do."""


def ssh(stack: str, outputs: Mapping[str, Any], machine: str, command: Sequence[str]) -> int:
    """Run a command on a machine, or a shell without one; returns the exit status.

    Host keys are those of the state. The files with keys are deleted when it ends.

    Raises:
        MachineError: if the stack has no such machine, or no host key of it.
        PulumiError: if the state cannot be read.
    """
    machines = [*outputs["gateways"], *outputs["nodes"]]
    names = [each["name"] for each in machines]
    if machine not in names:
        raise MachineError(f"{stack} has no machine {machine}; it has {', '.join(names)}")
    host_keys = _host_keys(stack, outputs)
    if machine not in host_keys:
        raise MachineError(
            f"the state has no host key of {machine}, which existed before the cluster: log in as "
            "you did then"
        )
    with tempfile.TemporaryDirectory() as folder:
        known_hosts = (f"{name} {key}\n" for name, key in host_keys.items())
        _write(Path(folder, "known_hosts"), "".join(known_hosts))
        _write(Path(folder, "key"), outputs["sshPrivateKey"])
        _write(Path(folder, "config"), "\n".join(_configuration(outputs, folder)))
        line = ["ssh", "-F", str(Path(folder, "config")), machine, *command]
        return subprocess.run(line, check=False).returncode  # noqa: S603 - as the user asks


def _host_keys(stack: str, outputs: Mapping[str, Any]) -> Mapping[str, str]:
    """Public host keys by the names of their machines; the gateways share one."""
    gateways = [each["name"] for each in outputs["gateways"]]
    found = {
        name.removesuffix("-host-key"): each["outputs"]["publicKeyOpenssh"].strip()
        for each in state(stack)["resources"]
        for name in [each["urn"].rsplit("::", 1)[1]]
        if name.endswith("-host-key") and each["type"].endswith(":PrivateKey")
    }
    shared = found[gateways[0].rsplit("-", 1)[0]]
    return found | dict.fromkeys([_ENTRANCE, *gateways], shared)


def _configuration(outputs: Mapping[str, Any], folder: str) -> Iterator[str]:
    address = urlsplit(outputs["apiEndpoint"]).hostname
    yield from (
        "Host *",
        f"User {outputs['immutableSettings']['sshUser']}",
        f"IdentityFile {folder}/key",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {folder}/known_hosts",
        "StrictHostKeyChecking yes",
        f"Host {_ENTRANCE}",
        f"HostName {address}",
        f"HostKeyAlias {_ENTRANCE}",
    )
    for index, gateway in enumerate(outputs["gateways"]):
        port = ports.FIRST_GATEWAY_SSH + index
        yield from (f"Host {gateway['name']}", f"HostName {address}", f"Port {port}")
        yield f"HostKeyAlias {gateway['name']}"
    for node in outputs["nodes"]:
        yield from (f"Host {node['name']}", f"HostName {node['address']}")
        yield from (f"HostKeyAlias {node['name']}", f"ProxyJump {_ENTRANCE}")
    yield ""


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
