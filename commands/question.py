"""A question to the user before something changes."""

from __future__ import annotations

import sys


def agreed(question: str, *, yes: bool) -> bool:
    """Ask, unless `yes` is the answer already; without a terminal it is no."""
    if yes:
        return True
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print("\nthere is no terminal to ask on: `--yes` answers yes", file=sys.stderr)
        return False
