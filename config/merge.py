"""What a user sets, laid on what the program sets."""

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on it, maps by key, everything else replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = (
            merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return result
