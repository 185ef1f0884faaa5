"""SSH to the machines of a cluster, with the keys of its stack."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from commands.errors import CommandError
from commands.fleet.stacks import state
from commands.private_file import private_folder, write_private
from config import ports

# The active gateway, as the SSH configuration calls it.
_ENTRANCE = "entrance"
# The resource of a permanent host key; the first generation has no number.
_HOST_KEY = re.compile(r"(?P<machine>.+)-host-key(-(?P<generation>\d+))?")


class MachineError(CommandError):
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
            f"the state has no host key of {machine}, which existed before the cluster: log in to "
            "it with your own ssh"
        )
    with private_folder() as folder:
        config = _write_files(folder, outputs, host_keys)
        line = ["ssh", "-F", str(config), machine, *command]
        try:
            return subprocess.run(line, check=False).returncode  # noqa: S603 - as the user asks
        except FileNotFoundError:
            raise MachineError("there is no program `ssh` on the PATH: install OpenSSH") from None


def write_files(folder: Path, stack: str, outputs: Mapping[str, Any]) -> Path:
    """Write what `ssh` and its relatives need, for all machines; returns the configuration.

    Raises:
        PulumiError: if the state cannot be read.
    """
    return _write_files(folder, outputs, _host_keys(stack, outputs))


def _write_files(
    folder: Path, outputs: Mapping[str, Any], host_keys: Mapping[str, Sequence[str]]
) -> Path:
    known_hosts = (f"{name} {key}\n" for name, keys in host_keys.items() for key in keys)
    write_private(folder / "known_hosts", "".join(known_hosts))
    write_private(folder / "ssh_key", outputs["sshPrivateKey"])
    config = folder / "ssh_config"
    write_private(config, "\n".join(_configuration(outputs, folder)))
    return config


def _host_keys(stack: str, outputs: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Public host keys by the names of their machines; the gateways share theirs.

    There are two of each while a rotation is not done, and none that is older than it.
    """
    gateways = [each["name"] for each in outputs["gateways"]]
    shown = int(outputs.get("hostKeys", 1))
    found: dict[str, list[str]] = {}
    for each in state(stack)["resources"]:
        named = _HOST_KEY.fullmatch(each["urn"].rsplit("::", 1)[1])
        if not named or not each["type"].endswith(":PrivateKey"):
            continue
        if int(named["generation"] or 1) >= shown:
            key = each["outputs"]["publicKeyOpenssh"].strip()
            found.setdefault(named["machine"], []).append(key)
    shared = found.get(gateways[0].rsplit("-", 1)[0])
    if shared is None:
        raise MachineError(f"the state of {stack} has no host key of its gateways: run pulumi up")
    return found | dict.fromkeys([_ENTRANCE, *gateways], shared)


def _configuration(outputs: Mapping[str, Any], folder: Path) -> Iterator[str]:
    address = urlsplit(outputs["apiEndpoint"]).hostname
    # ssh splits at spaces and expands what follows a %.
    place = str(folder).replace("%", "%%")
    yield from (
        "Host *",
        f"User {outputs['immutableSettings']['sshUser']}",
        f'IdentityFile "{place}/ssh_key"',
        "IdentitiesOnly yes",
        f'UserKnownHostsFile "{place}/known_hosts"',
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
        name, address = node["name"], node["address"]
        yield from (f"Host {name} {address}", f"HostName {address}")
        yield from (f"HostKeyAlias {name}", f"ProxyJump {_ENTRANCE}")
    yield ""
