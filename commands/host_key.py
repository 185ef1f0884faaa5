"""Replaces the SSH host key of one server, which may still show that of an earlier generation.

`pulumi up` runs it when `rotation.hostKeys` has another number: `show` before anything asks for the
new key, `only` when nothing asks for an old one any more. It runs where Pulumi runs, because the
engine's own connections know one host key each. In the environment:

MACHINE  JSON: name, address, port, user, host_key, and `via`, the same of the gateway, or null;
         the host keys are the newest
KEYS     JSON: private SSH keys, the newest first; the gateway accepts the newest
OLDER    JSON: older host keys: for `show`, what the server may show instead; for `only`, what it
         is not to show any more
COMMAND  the command that installs the host keys, and
FOLDER   what that reads
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from commands.errors import CommandError
from commands.private_file import private_folder
from commands.ssh_login import RefusedError, SshLogin, StrangerError


class Server:
    """One server, by the host keys that it is to show."""

    def __init__(self, folder: Path) -> None:
        self._machine, self._keys, self._older = (
            json.loads(os.environ[name]) for name in ("MACHINE", "KEYS", "OLDER")
        )
        self._folder = folder
        self.name: str = self._machine["name"]

    def show(self) -> None:
        """Have it show the newest key, whichever it shows now, and make sure that it does."""
        newest = self._machine["host_key"]
        self._install(self._login("any", [newest, *self._older]))
        try:
            self._login("newest", [newest]).run("true\n")
        except StrangerError as error:
            raise RefusedError(
                f"{self.name} does not show its new SSH host key: check that its sshd_config "
                f"includes /etc/ssh/sshd_config.d/*.conf ({error})"
            ) from error

    def only(self) -> None:
        """Have it show the newest key only, and make sure that it does."""
        if not self._older:  # they are still needed
            return
        self._install(self._login("newest", [self._machine["host_key"]]))
        try:
            self._login("older", self._older).run("true\n")
        except StrangerError:
            return
        raise RefusedError(
            f"{self.name} still shows an old SSH host key: remove it from the HostKey lines of its "
            "sshd_config, then run pulumi up"
        )

    def _install(self, login: SshLogin) -> None:
        login.run(os.environ["FOLDER"], command=os.environ["COMMAND"])

    def _login(self, name: str, host_keys: Sequence[str]) -> SshLogin:
        folder = self._folder / name
        folder.mkdir()
        shown = {"host_key": "\n".join(key.strip() for key in host_keys)}
        return SshLogin({**self._machine, **shown}, self._keys, folder)


def main() -> None:
    """Do what the argument says on the server that the environment names."""
    with private_folder() as folder:
        server = Server(folder)
        try:
            match sys.argv[1:]:
                case ["show"]:
                    server.show()
                case ["only"]:
                    server.only()
                case _:
                    sys.exit("usage: python -m commands.host_key show|only")
        except CommandError as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
