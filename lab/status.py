"""Show which parts of the lab are up, and why the others are not."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Return 0 when everything is up, 1 when something is not, 3 when the cloud is down."""
    from lab.cloud import status

    return status.show()
