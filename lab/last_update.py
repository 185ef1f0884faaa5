"""The changes of a stack's last update."""

from __future__ import annotations

import json

# The question to the CLI.
LAST_UPDATE = ("stack", "history", "--json", "--page-size", "1")


def changes(told: str) -> dict[str, int]:
    """Operation -> number of resources in the CLI's answer, without those that stayed the same."""
    counted: dict[str, int] = json.loads(told)[0].get("resourceChanges") or {}
    return {what: count for what, count in counted.items() if what not in ("same", "read")}
