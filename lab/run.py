"""Run a command inside the lab: `lab run -- COMMAND`."""

from __future__ import annotations

import argparse

from lab.errors import LabError


def configure(parser: argparse.ArgumentParser) -> None:
    """Everything behind `--` is the command."""
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")


def run(arguments: argparse.Namespace) -> int:
    """Run it; its exit status is the lab's."""
    from lab.cloud import inside

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        raise LabError("say what to run: python -m lab run -- COMMAND")
    return inside.run(words)
