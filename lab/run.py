"""Run a command inside the lab: `lab run -- COMMAND`."""

from __future__ import annotations

import argparse

from lab.errors import LabError


def configure(parser: argparse.ArgumentParser) -> None:
    """Take everything after `--` as the command."""
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; its exit status becomes that of `lab run`."""
    from lab.cloud import inside

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        raise LabError("no command to run: .venv/bin/python -m lab run -- COMMAND")
    return inside.run(words)
