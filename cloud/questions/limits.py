"""Limits in the answers of the services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloud.facts import Limit


def limits(pairs: Mapping[str, tuple[Any, Any]]) -> dict[str, Limit]:
    """Limits from pairs of limit and usage; one that the service leaves out does not exist."""
    return {
        name: Limit(limit=int(limit), used=int(used or 0))
        for name, (limit, used) in pairs.items()
        if limit is not None
    }
