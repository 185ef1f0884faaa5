"""Command line options for the size of a cluster."""

from __future__ import annotations

import argparse


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --gateways, --control-planes and --workers; the defaults make it highly available."""
    for machines, count in (("gateways", 2), ("control-planes", 3), ("workers", 2)):
        parser.add_argument(
            f"--{machines}",
            type=int,
            default=count,
            metavar="COUNT",
            help=f"number of {machines.replace('-', ' ')} (default: {count})",
        )
