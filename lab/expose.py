"""Let this machine itself reach the lab's APIs and floating IPs, without `lab run`."""

from __future__ import annotations

import argparse
import os

from lab.errors import LabError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the option that reverts the command."""
    parser.add_argument("--off", action="store_true", help="remove the route again")


def run(arguments: argparse.Namespace) -> int:
    """Add or remove the route, and print the variables that a client needs."""
    from lab.cloud import exposed
    from lab.cloud.layout import CLOUD, CLOUDS_YAML, EXTERNAL_CIDR, KUBECONFIG
    from lab.console import say

    if os.geteuid() != 0:
        raise LabError("changing this machine's routes needs root: run this as root")
    if arguments.off:
        exposed.turn_off()
        say(f"this machine no longer reaches {EXTERNAL_CIDR}")
        return 0
    exposed.turn_on()
    say(
        f"this machine reaches {EXTERNAL_CIDR} until `.venv/bin/python -m lab expose --off` or "
        "`... -m lab cloud down`"
    )
    print(f"export OS_CLIENT_CONFIG_FILE={CLOUDS_YAML} OS_CLOUD={CLOUD}")
    if KUBECONFIG.exists():
        print(f"export KUBECONFIG={KUBECONFIG}")
    return 0
