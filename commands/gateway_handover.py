"""Moves the floating IP to another gateway before this one goes, instead of after a time-out.

`pulumi up` runs it before it replaces or removes a gateway; `pulumi destroy` does not. It is no
node script: the connection goes through the floating IP, and ends when that moves. A gateway that
cannot be reached must not block an update, so this command never fails. In the environment:

GATEWAY, SERVER_ID  the name of the gateway that goes, and the id of its server
OTHERS              the number of other gateways
ADDRESS, SSH_USER, SSH_KEY, HOST_KEY  the login at the active gateway, whichever that is
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from commands import ssh
from commands.errors import CommandError
from commands.private_file import private_folder, write_private
from commands.waiting import until

# Seconds for another gateway to take over; a healthy one needs a tenth of one.
PATIENCE = 10
# Seconds for one answer.
ANSWER_SECONDS = 10.0

# The exit status of the command below when the gateway that goes has the floating IP.
_STOPPING = 3
# Succeeds when another gateway has the floating IP. Otherwise it stops keepalived, which tells the
# other gateways; with a delay, so that the answer arrives before the address moves.
_COMMAND = f"""\
[ "$(cat /var/lib/cloud/data/instance-id)" != "{{server}}" ] && exit 0
sudo -n systemd-run --quiet --on-active=300ms --timer-property=AccuracySec=10ms \\
  systemctl stop keepalived.service
# The server goes within seconds; if it stays after all, it must be able to take over again.
sudo -n systemd-run --quiet --on-active=60s systemctl start keepalived.service
exit {_STOPPING}
"""


def hand_over(settings: Mapping[str, str], folder: Path) -> str:
    """Move the floating IP if this gateway has it; returns what to report, if anything.

    Args:
        settings: the variables in this module's description.
        folder: where the SSH key may lie while this runs.
    """
    name = settings["GATEWAY"]
    if settings["OTHERS"] == "0":
        return f"{name} is the only gateway: the cluster cannot be reached until the new one is up"
    words = _words(settings, folder)
    answers: list[subprocess.CompletedProcess[str]] = []

    def another_has_it() -> bool:
        answers.append(ssh.run(words, seconds=ANSWER_SECONDS))
        return answers[-1].returncode == 0

    if until(another_has_it, PATIENCE, pause=0.1):
        had_it = any(answer.returncode == _STOPPING for answer in answers)
        return f"{name} gave the floating IP to another gateway" if had_it else ""
    errors = [answer.stderr.strip() for answer in answers if answer.stderr.strip()]
    reason = f": {errors[-1]}" if errors else ""
    return f"no other gateway took the floating IP of {name} within {PATIENCE} s{reason}"


def _words(settings: Mapping[str, str], folder: Path) -> list[str]:
    key, known_hosts = folder / "key", folder / "known_hosts"
    write_private(key, settings["SSH_KEY"])
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
        *("-F", "/dev/null", "-i", str(key), *words),
        f"{settings['SSH_USER']}@{settings['ADDRESS']}",
        _COMMAND.format(server=settings["SERVER_ID"]),
    ]


def main() -> None:
    """Hand over for the gateway that the environment names."""
    try:
        with private_folder() as folder:
            report = hand_over(os.environ, folder)
    except (OSError, CommandError) as error:
        report = f"{os.environ['GATEWAY']} could not hand over the floating IP: {error}"
    if report:
        print(report)


if __name__ == "__main__":
    main()
