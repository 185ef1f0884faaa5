"""Let this machine itself reach the lab's APIs and floating IPs, without `lab run`."""

from __future__ import annotations

import argparse
import os

from lab.errors import LabError


def configure(parser: argparse.ArgumentParser) -> None:
    """On, or off again."""
    parser.add_argument("--off", action="store_true", help="take the way away again")


def run(arguments: argparse.Namespace) -> int:
    """Say how to use it."""
    from lab.cloud import exposed
    from lab.cloud.layout import CLOUD, CLOUDS_YAML, EXTERNAL_CIDR, KUBECONFIG
    from lab.console import say

    if os.geteuid() != 0:
        raise LabError("changing this machine's routes needs root")
    if arguments.off:
        exposed.turn_off()
        say(f"this machine has no way to {EXTERNAL_CIDR} any more")
        return 0
    exposed.turn_on()
    say(
        f"{EXTERNAL_CIDR} can be reached from this machine until `lab expose --off` or `cloud down`"
    )
    print(f"export OS_CLIENT_CONFIG_FILE={CLOUDS_YAML} OS_CLOUD={CLOUD}")
    if KUBECONFIG.exists():
        print(f"export KUBECONFIG={KUBECONFIG}")
    return 0
