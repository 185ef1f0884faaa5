"""Open a shell inside the lab, with OS_CLOUD and KUBECONFIG set."""

from __future__ import annotations

import argparse
import os


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Open the user's own shell."""
    from lab.cloud import inside

    return inside.run([os.environ.get("SHELL", "/bin/bash")])
