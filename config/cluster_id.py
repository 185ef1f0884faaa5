"""The ID of a cluster: its name and a checksum, which tells it from another one of this name."""

from __future__ import annotations

import hashlib
import re

# Hexadecimal digits after the cluster's name.
_DIGITS = 8
_FORM = re.compile(rf"(.+)-[0-9a-f]{{{_DIGITS}}}")


def cluster_id(name: str, certificate: str) -> str:
    """The ID of the cluster with this name and this first CA certificate."""
    return f"{name}-{hashlib.sha256(certificate.encode()).hexdigest()[:_DIGITS]}"


def name_in(text: str) -> str | None:
    """The cluster's name in an ID; None if the text is not one."""
    found = _FORM.fullmatch(text)
    return found and found[1]
