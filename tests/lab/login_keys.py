"""The keys that a cluster's machines accept at an SSH login, and those that they show."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from commands.private_file import write_private
from lab.cluster import Cluster, run
from lab.ssh_host import ssh_command


def ssh_keys(cluster: Cluster) -> list[str]:
    """The cluster's SSH keys in the state, the first generation first."""
    found = {
        resource["urn"].rpartition("::")[2]: json.loads(
            resource["outputs"]["privateKeyOpenssh"]["plaintext"]
        )
        for resource in cluster.stack.resources(secrets=True)
        if re.search(rf":PrivateKey::{cluster.name}-ssh(-\d+)?$", resource["urn"])
    }
    return [found[name] for name in sorted(found)]


def opened_by(cluster: Cluster, machine: str, key: str, through: str) -> bool:
    """True if this key opens a machine; `through` is a key that opens the gateway."""
    gateway = cluster.floating_ip
    files = {"tried_key": key, "through_key": through}
    for name, text in files.items():
        write_private(cluster.stack.folder / name, text)
    command, jump = (ssh_command(cluster.stack.folder / name) for name in files)
    to = gateway
    if machine != f"{cluster.name}-gateway-0":
        command += ["-o", f"ProxyCommand={shlex.join(jump)} -W %h:%p debian@{gateway}"]
        to = cluster.addresses()[machine]
    said = run(*command, f"debian@{to}", "echo opened", check=False)
    for name in files:
        (cluster.stack.folder / name).unlink()
    return said.strip() == "opened"


def assert_only_the_newest_ssh_key_opens(
    cluster: Cluster, machines: Sequence[str], generation: int
) -> None:
    *old, newest = ssh_keys(cluster)
    assert len(old) == generation - 1
    assert cluster.stack.outputs()["sshPrivateKey"] == newest
    for machine in machines:
        assert opened_by(cluster, machine, newest, newest), machine
        assert not any(opened_by(cluster, machine, key, newest) for key in old), machine


def host_keys(cluster: Cluster) -> dict[str, dict[int, str]]:
    """Machine -> generation -> its public host key in the state; the gateway's is shared."""
    found: dict[str, dict[int, str]] = {}
    for resource in cluster.stack.resources():
        named = re.search(r":PrivateKey::(.+)-host-key(?:-(\d+))?$", resource["urn"])
        if named:
            machine = f"{named[1]}-0" if named[1] == f"{cluster.name}-gateway" else named[1]
            key = " ".join(resource["outputs"]["publicKeyOpenssh"].split()[:2])
            found.setdefault(machine, {})[int(named[2] or 1)] = key
    return found


def scanned(cluster: Cluster, machine: str) -> list[str]:
    """The host keys that a machine shows to whoever asks."""
    if machine == f"{cluster.name}-gateway-0":
        said = run("ssh-keyscan", cluster.floating_ip)
    else:
        to = cluster.addresses()[machine]
        said = cluster.fleet(
            "ssh", cluster.name, f"{cluster.name}-gateway-0", f"ssh-keyscan {to} 2>/dev/null"
        )
    lines = [line for line in said.splitlines() if not line.startswith("#")]
    return [line.split(" ", 1)[1].strip() for line in lines]


def on_disk(cluster: Cluster, machine: str) -> list[str]:
    """The public host keys of a machine: a scan shows one ECDSA key at most."""
    said = cluster.fleet("ssh", cluster.name, machine, "cat /etc/ssh/ssh_host_*_key.pub")
    return [" ".join(line.split()[:2]) for line in said.splitlines()]


def assert_only_the_newest_host_keys_are_shown(
    cluster: Cluster, machines: Sequence[str], generation: int
) -> None:
    keys = host_keys(cluster)
    assert cluster.stack.outputs()["hostKeys"] == generation
    for machine in machines:
        assert sorted(keys[machine]) == list(range(1, generation + 1))
        newest = [keys[machine][generation]]
        # The fleet's ssh knows the newest key only.
        assert on_disk(cluster, machine) == newest, machine
        assert scanned(cluster, machine) == newest, machine
