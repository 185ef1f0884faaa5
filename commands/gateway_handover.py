"""Before a gateway goes: the floating IP moves to another one at once, not after a time-out.

`pulumi up` runs it before it replaces or removes a gateway; `pulumi destroy` does not. The active
gateway cannot be told by a node script: the connection goes through the floating IP and ends with
the move. Nothing that is dead holds an update up, so it always ends well. In the environment:

GATEWAY, SERVER_ID  the name of the one that goes, and its server's id
OTHERS              how many other gateways there are
ADDRESS, SSH_USER, SSH_KEY, HOST_KEY  the way in: the active gateway, whichever that is
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

# Seconds for another gateway to take over; one that lives needs a tenth of one.
PATIENCE = 10

# Status 0 when another gateway answers behind the floating IP. keepalived tells the others when it
# is stopped; that is a moment later, so that the answer arrives before the address is gone.
COMMAND = """\
[ "$(cat /var/lib/cloud/data/instance-id)" != "{server}" ] && exit 0
sudo -n systemd-run --quiet --on-active=300ms --timer-property=AccuracySec=10ms \\
  systemctl stop keepalived.service
exit 3
"""


def hand_over(settings: Mapping[str, str], folder: Path) -> str:
    """Move the floating IP away from the gateway if it is there; what was done, or nothing."""
    name = settings["GATEWAY"]
    if settings["OTHERS"] == "0":
        return f"{name} is the only gateway: nobody answers until its successor does"
    line = _command_line(settings, folder)
    end = time.monotonic() + PATIENCE
    told = False
    complaint = ""
    while time.monotonic() < end:
        done = subprocess.run(  # noqa: S603 - the operator's own ssh
            line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return f"{name} gave the floating IP to another gateway" if told else ""
        told = told or done.returncode == 3
        complaint = done.stderr.strip() or complaint
        time.sleep(0.1)
    return f"{name} goes, but no other gateway answers after {PATIENCE} s. {complaint}".strip()


def _command_line(settings: Mapping[str, str], folder: Path) -> list[str]:
    key, known_hosts = folder / "key", folder / "known_hosts"
    key.touch(mode=0o600)
    key.write_text(settings["SSH_KEY"])
    known_hosts.write_text(f"gateway {settings['HOST_KEY']}\n")
    options = {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "HostKeyAlias": "gateway",
        "HostKeyAlgorithms": settings["HOST_KEY"].split()[0],
        "LogLevel": "ERROR",
        # The answer may be lost when the address moves.
        "ConnectTimeout": "5",
        "ServerAliveInterval": "1",
        "ServerAliveCountMax": "2",
    }
    words = [word for option, value in options.items() for word in ("-o", f"{option}={value}")]
    return [
        *("ssh", "-F", "/dev/null", "-i", str(key), *words),
        f"{settings['SSH_USER']}@{settings['ADDRESS']}",
        COMMAND.format(server=settings["SERVER_ID"]),
    ]


def main() -> None:
    """Hand over for the gateway that the environment names."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            said = hand_over(os.environ, Path(folder))
        except OSError as error:
            said = f"{os.environ['GATEWAY']} goes without handing the floating IP over: {error}"
    if said:
        print(said)


if __name__ == "__main__":
    main()
