"""Start, stop and look at the OpenStack of this machine."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """`lab cloud up|down|status`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = actions.add_parser("up", help="install what is missing and start everything")
    up.add_argument(
        "--fresh",
        action="store_true",
        help="fill new databases instead of starting from the saved ones",
    )
    actions.add_parser("down", help="stop everything and leave nothing but the cache")
    actions.add_parser("status", help="say what is up, and what is not and why")


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
