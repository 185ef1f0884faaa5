"""Merges the user's values over the program's."""

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `base` with `over` merged in: mappings key by key, all other values replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = (
            merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return result
