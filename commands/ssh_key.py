"""Replaces the cluster's SSH key on one machine, which is reached with any key that it accepts.

`pulumi up` runs it when `rotation.sshKey` has another number: `accept` before anything connects
with the new key, `only` when nothing connects with an old one any more. It runs where Pulumi runs,
because the engine's own connections know one key each. In the environment:

MACHINE  JSON: name, address, port, user, host_key, and `via`, the same of the gateway, or null
KEYS     JSON: the private keys, the newest first; the gateway accepts the newest
ACCEPT   JSON: for `accept`, the public keys that the machine is to accept
RETIRE   JSON: for `only`, the public keys that it is not to accept any more
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

# Seconds for a machine to answer, and between two tries.
PATIENCE = 300
PAUSE = 3.0

# Adds the lines that are missing. A power cut leaves the old file or the new one.
_ACCEPT = """\
set -eu
umask 077
mkdir -p ~/.ssh
cd ~/.ssh
touch authorized_keys
new=$(mktemp .authorized_keys.XXXXXX)
{ cat authorized_keys; printf '\\n%s\\n' {keys}; } | awk 'NF && !seen[$0]++' >"$new"
if cmp -s "$new" authorized_keys; then rm "$new"; else sync "$new"; mv "$new" authorized_keys; fi
"""
# cloud-init gives root the same key, with a command that only says to log in as another user.
_ONLY = """\
set -eu
umask 077
for file in ~/.ssh/authorized_keys /root/.ssh/authorized_keys; do
  sudo -n test -e "$file" || continue
  sudo -n grep -qF {patterns} "$file" || continue
  sudo -n sed -i {deletions} "$file"
done
"""


class UnreachableError(Exception):
    """The machine does not answer now; later it may."""


class RefusedError(Exception):
    """The machine accepts none of the keys, or still accepts one that it must not."""


class Login:
    """One machine, by the operator's own ssh."""

    def __init__(self, settings: Mapping[str, str], folder: Path) -> None:
        self._machine: dict[str, Any] = json.loads(settings["MACHINE"])
        self._name: str = self._machine["name"]
        self._keys = []
        for number, text in enumerate(json.loads(settings["KEYS"])):
            key = folder / f"key-{number}"
            key.touch(mode=0o600)
            key.write_text(text)
            self._keys.append(key)
        self._config = folder / "config"
        known_hosts = folder / "known_hosts"
        hosts = {"machine": self._machine}
        if self._machine["via"]:
            hosts["gateway"] = self._machine["via"]
        known_hosts.write_text(
            "".join(f"{alias} {host['host_key'].strip()}\n" for alias, host in hosts.items())
        )
        text = "".join(self._host(alias, host) for alias, host in hosts.items())
        if self._machine["via"]:
            text += f"Host gateway\n  IdentityFile {self._keys[0]}\n"
            text += "Host machine\n  ProxyJump gateway\n"
        self._config.write_text(
            f"{text}Host *\n  UserKnownHostsFile {known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n  BatchMode yes\n  IdentitiesOnly yes\n"
            "  IdentityAgent none\n  LogLevel ERROR\n  ConnectTimeout 10\n"
            "  ServerAliveInterval 5\n  ServerAliveCountMax 6\n"
        )

    @staticmethod
    def _host(alias: str, host: Mapping[str, Any]) -> str:
        kind = host["host_key"].split()[0]
        algorithms = "rsa-sha2-512,rsa-sha2-256" if kind == "ssh-rsa" else kind
        return (
            f"Host {alias}\n  HostName {host['address']}\n  Port {host['port']}\n"
            f"  User {host['user']}\n  HostKeyAlias {alias}\n  HostKeyAlgorithms {algorithms}\n"
        )

    def accept(self, public: Sequence[str]) -> None:
        """Have the machine accept these keys, and make sure that the newest works."""
        keys = " ".join(map(shlex.quote, public))
        self._run(self._keys, _ACCEPT.replace("{keys}", keys))
        self._run(self._keys[:1], "true\n")

    def only(self, public: Sequence[str]) -> None:
        """Have the machine refuse these keys, and make sure that it does."""
        bodies = [key.split()[1] for key in public]
        script = _ONLY.replace("{patterns}", " ".join(f"-e {shlex.quote(each)}" for each in bodies))
        deletions = " ".join("-e " + shlex.quote(f"\\|{each}|d") for each in bodies)
        self._run(self._keys[:1], script.replace("{deletions}", deletions))
        for key in self._keys[1:]:
            if self._ssh(key, "true\n").returncode == 0:
                raise RefusedError(
                    f"{self._name} still accepts an old SSH key, which is not in the files "
                    f"authorized_keys of {self._machine['user']} and root there: "
                    "look at AuthorizedKeysFile in its sshd_config, remove the key, pulumi up"
                )

    @retry(
        retry=retry_if_exception_type(UnreachableError),
        wait=wait_fixed(PAUSE),
        stop=stop_after_delay(PATIENCE),
        reraise=True,
    )
    def _run(self, keys: Sequence[Path], script: str) -> None:
        """Run a script on standard input, with the first key that the machine accepts."""
        for key in keys:
            done = self._ssh(key, script)
            if done.returncode == 0:
                return
            error = done.stderr.strip()
            # The gateway's refusal ends the connection to the machine, too.
            if done.returncode == 255 and "Permission denied" not in error:
                raise UnreachableError(f"{self._name} does not answer: {error}")
            if done.returncode != 255:
                raise RefusedError(f"{self._name}: {error}")
        raise RefusedError(f"{self._name} accepts none of the cluster's SSH keys: {error}")

    def _ssh(self, key: Path, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - the operator's own ssh
            ["ssh", "-F", str(self._config), "-i", str(key), "machine", "sh", "-s"],  # noqa: S607
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )


def main() -> None:
    """Do what the argument says on the machine that the environment names."""
    with tempfile.TemporaryDirectory() as folder:
        login = Login(os.environ, Path(folder))
        try:
            match sys.argv[1:]:
                case ["accept"]:
                    login.accept(json.loads(os.environ["ACCEPT"]))
                case ["only"]:
                    login.only(json.loads(os.environ["RETIRE"]))
                case _:
                    sys.exit("usage: python -m commands.ssh_key accept|only")
        except (UnreachableError, RefusedError) as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
