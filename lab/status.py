"""Say what of the lab is up, and what is not and why."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """The exit status is 0 when everything is up, 1 when not, 3 when the cloud is down."""
    from lab.cloud import status

    return status.show()
