"""An SSH login at one machine, by the operator's own ssh, where several keys are possible.

The engine's own connections know one key each.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from commands import ssh
from commands.errors import CommandError
from commands.private_file import write_private
from commands.waiting import while_raising

# Seconds for a machine to answer, and between two tries.
PATIENCE = 300
PAUSE = 3.0
# Seconds of one login, more than twice those of a host key (components/host_key.py): its script may
# wait for another one first.
COMMAND_SECONDS = 660.0
# Seconds of one that does nothing.
ANSWER_SECONDS = 30.0

# The end of ssh's message about a machine that shows another host key, of that type or any other.
_STRANGER = ("Host key verification failed.", "no matching host key type found")


class UnreachableError(CommandError):
    """The machine does not answer now; later it may."""


_patiently = while_raising(UnreachableError, PATIENCE, PAUSE).wraps


class RefusedError(CommandError):
    """The machine accepts none of the keys, or still accepts one that it must not."""


class StrangerError(CommandError):
    """The machine, or its gateway, shows none of the host keys."""


class SshLogin:
    """One machine, which accepts one of these private keys, the newest first.

    `machine` has name, address, port, user, host_key (more than one: a line each), and `via`, the
    same of the gateway, or None; that one accepts the newest key. The files are in `folder`.
    """

    def __init__(self, machine: Mapping[str, Any], keys: Sequence[str], folder: Path) -> None:
        self.name: str = machine["name"]
        self.user: str = machine["user"]
        self._keys = []
        for number, text in enumerate(keys):
            key = folder / f"key-{number}"
            write_private(key, text)
            self._keys.append(key)
        self._config = folder / "config"
        known_hosts = folder / "known_hosts"
        hosts = {"machine": machine}
        if machine["via"]:
            hosts["gateway"] = machine["via"]
        known_hosts.write_text(
            "".join(
                f"{alias} {key}\n"
                for alias, host in hosts.items()
                for key in host["host_key"].split("\n")
                if key
            )
        )
        text = "".join(_host(alias, host) for alias, host in hosts.items())
        if machine["via"]:
            text += f"Host gateway\n  IdentityFile {self._keys[0]}\n"
            text += "Host machine\n  ProxyJump gateway\n"
        # At the level ERROR ssh is silent about a host key of another type.
        self._config.write_text(
            f"{text}Host *\n  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n  BatchMode yes\n  IdentitiesOnly yes\n"
            "  IdentityAgent none\n  LogLevel INFO\n  ConnectTimeout 10\n"
            "  ServerAliveInterval 5\n  ServerAliveCountMax 6\n"
        )

    @_patiently
    def run(self, text: str, *, command: str = "sh -s", newest_only: bool = False) -> None:
        """Run a command with `text` on standard input, with the first key that is accepted.

        Raises:
            RefusedError: if the machine accepts no key, or the command fails.
            StrangerError: if the machine shows another host key.
            UnreachableError: if it does not answer.
        """
        for key in self._keys[:1] if newest_only else self._keys:
            done = self._ssh(key, text, command, seconds=COMMAND_SECONDS)
            if done.returncode == 0:
                return
            error = done.stderr.strip()
            if done.returncode != ssh.FAILED:
                raise RefusedError(f"{self.name}: {error}")
            for line in error.splitlines():
                if any(sign in line for sign in _STRANGER):
                    raise StrangerError(
                        f"{self.name} or its gateway shows no host key of this cluster ({line}): "
                        "another machine answers there, or its keys were changed by hand: "
                        "look at /etc/ssh from its console, or replace it"
                    )
            self._require_refusal(error)
        raise RefusedError(f"{self.name} accepts none of the cluster's SSH keys: {error}")

    @_patiently
    def accepts_an_older_key(self) -> bool:
        """True if a key other than the newest one opens the machine.

        Raises:
            UnreachableError: if it does not answer, which is no refusal.
        """
        for key in self._keys[1:]:
            done = self._ssh(key, "", "true", seconds=ANSWER_SECONDS)
            # With any other status something has run there.
            if done.returncode != ssh.FAILED:
                return True
            self._require_refusal(done.stderr.strip())
        return False

    def _require_refusal(self, error: str) -> None:
        # The gateway's refusal ends the connection to the machine, too.
        if "Permission denied" not in error:
            raise UnreachableError(f"{self.name} does not answer: {error}")

    def _ssh(
        self, key: Path, text: str, command: str, *, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        words = ["-F", str(self._config), "-i", str(key), "machine", command]
        return ssh.run(words, seconds=seconds, text=text)


def _host(alias: str, host: Mapping[str, Any]) -> str:
    kinds = dict.fromkeys(key.split()[0] for key in host["host_key"].split("\n") if key)
    algorithms = ",".join(
        "rsa-sha2-512,rsa-sha2-256" if kind == "ssh-rsa" else kind for kind in kinds
    )
    return (
        f"Host {alias}\n  HostName {host['address']}\n  Port {host['port']}\n"
        f"  User {host['user']}\n  HostKeyAlias {alias}\n  HostKeyAlgorithms {algorithms}\n"
    )
