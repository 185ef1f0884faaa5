"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse

# The cluster signs certificates for no longer; tokens end with the same.
_LONGEST_HOURS = 365 * 24


def hours(text: str) -> int:
    """The life of a certificate or a token."""
    if not text.isdecimal() or not 1 <= (number := int(text)) <= _LONGEST_HOURS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {_LONGEST_HOURS}, which is a year")
    return number
