"""Take everything down: servers, cloud and the stack's state; only the cache stays."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Take the cloud down, which takes its servers with it: no `pulumi destroy` is needed."""
    from lab.backend import CONFIG_FILE
    from lab.cloud import lifecycle

    lifecycle.down()
    CONFIG_FILE.unlink(missing_ok=True)
    return 0
