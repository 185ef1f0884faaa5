"""Start or stop the OpenStack of this machine, or show its status."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions: `lab cloud up|down|status`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = actions.add_parser("up", help="install what is missing and start everything")
    up.add_argument(
        "--fresh",
        action="store_true",
        help="create new databases instead of starting from the saved ones (takes minutes)",
    )
    actions.add_parser("down", help="stop everything and remove all but the cache")
    actions.add_parser("status", help="show what is up, and why the rest is not")


def run(arguments: argparse.Namespace) -> int:
    """Run one of the actions."""
    # Imported late: the command line lists its commands without loading them.
    from lab.cloud import lifecycle, status

    if arguments.action == "up":
        lifecycle.up(fresh=arguments.fresh)
        return 0
    if arguments.action == "down":
        lifecycle.down()
        return 0
    return status.show()
