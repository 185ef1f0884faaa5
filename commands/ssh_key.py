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
import sys
from collections.abc import Sequence

from commands.errors import CommandError
from commands.private_file import private_folder
from commands.ssh_login import RefusedError, SshLogin

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


def accept(login: SshLogin, public: Sequence[str]) -> None:
    """Have the machine accept these keys, and make sure that the newest works."""
    keys = " ".join(map(shlex.quote, public))
    login.run(_ACCEPT.replace("{keys}", keys))
    login.run("true\n", newest_only=True)


def only(login: SshLogin, public: Sequence[str]) -> None:
    """Have the machine refuse these keys, and make sure that it does.

    Raises:
        RefusedError: if it still accepts an older one.
    """
    if not public:  # they are still needed, or two texts of one key
        return
    bodies = [key.split()[1] for key in public]
    script = _ONLY.replace("{patterns}", " ".join(f"-e {shlex.quote(each)}" for each in bodies))
    deletions = " ".join("-e " + shlex.quote(f"\\|{each}|d") for each in bodies)
    login.run(script.replace("{deletions}", deletions), newest_only=True)
    if login.accepts_an_older_key():
        raise RefusedError(
            f"{login.name} still accepts an old SSH key, which is not in the files "
            f"authorized_keys of {login.user} and root there: "
            "look at AuthorizedKeysFile in its sshd_config, remove the key, then run pulumi up"
        )


def main() -> None:
    """Do what the argument says on the machine that the environment names."""
    machine, keys = (json.loads(os.environ[name]) for name in ("MACHINE", "KEYS"))
    with private_folder() as folder:
        login = SshLogin(machine, keys, folder)
        try:
            match sys.argv[1:]:
                case ["accept"]:
                    accept(login, json.loads(os.environ["ACCEPT"]))
                case ["only"]:
                    only(login, json.loads(os.environ["RETIRE"]))
                case _:
                    sys.exit("usage: python -m commands.ssh_key accept|only")
        except CommandError as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
