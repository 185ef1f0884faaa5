"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse

from config.cluster_id import name_in

# The cluster signs certificates for no longer; tokens end with the same.
_LONGEST_HOURS = 365 * 24


def hours(text: str) -> int:
    """The life of a certificate or a token."""
    if not text.isdecimal() or not 1 <= (number := int(text)) <= _LONGEST_HOURS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {_LONGEST_HOURS}, which is a year")
    return number


def cluster_id(text: str) -> str:
    """The ID of a cluster: another text, such as its name, would only find nothing."""
    if name_in(text) is None:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not the ID of a cluster: use the stack's output `clusterId`, such as "
            "demo-1a2b3c4d"
        )
    return text
