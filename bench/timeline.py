"""The parts of an update and their seconds, from the engine's own events."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.picture import Bar

COLUMNS = ("part", "resources", "from", "to")
# Part of an update -> type and name of its resources; the first one that fits counts.
PARTS = {
    "keys and certificates": r"^(tls|random):",
    "network": r"^openstack:networking",
    "servers": r"^openstack:compute.*:Instance ",
    "machines boot, first SSH login": r"-host-key$",
    "scripts copied": r"-scripts$",
    "gateways": r"gateway-\d+-configure$",
    "other control planes prepared": r"-prepare$",
    "first control plane": r"control-plane-0-configure$",
    "other control planes": r"control-plane-\d+-configure$",
    "workers": r"-configure$",
    "nodes Ready": r"-join$",
    "add-ons": r"-addons-|^kubernetes:",
}


@dataclass(frozen=True)
class Span:
    """A resource that the update worked on, in seconds since its beginning."""

    part: str
    begin: int
    end: int


def recorded(events: Path) -> tuple[str, ...]:
    """Flags with which `pulumi up` writes its events to a file."""
    os.environ["PULUMI_DEBUG_COMMANDS"] = "true"  # without it the CLI does not know the flag
    return ("--event-log", str(events))


def spans(events: Path) -> list[Span]:
    """Read the events of an update, which have whole seconds.

    Components, and what stays as it is, are left out.
    """
    started: dict[str, int] = {}
    found: list[tuple[str, int, int]] = []
    for event in map(json.loads, events.read_text().splitlines()):
        urn, begins = _step(event)
        if begins:
            started[urn] = event["timestamp"]
        elif urn in started:
            found.append((urn, started.pop(urn), event["timestamp"]))
    first = min((begin for _, begin, _ in found), default=0)
    return [
        Span(part, begin - first, end - first) for urn, begin, end in found if (part := _part(urn))
    ]


def _step(event: Mapping[str, Any]) -> tuple[str, bool]:
    """The resource that this event is about, and whether work on it begins; empty if none."""
    for kind, begins in (("resourcePreEvent", True), ("resOutputsEvent", False)):
        metadata = event.get(kind, {}).get("metadata", {})
        if metadata.get("op", "same") != "same":
            return metadata["urn"], begins
    return "", False


def _part(urn: str) -> str | None:
    *_, types, name = urn.split("::", 3)
    resource = f"{types.rpartition('$')[2]} {name}"
    return next((part for part, pattern in PARTS.items() if re.search(pattern, resource)), None)


def bars(events: Path) -> list[Bar]:
    """A bar for each part that the update worked on."""
    of = spans(events)
    drawn = []
    for part in PARTS:
        # Shorter than a second is still seen.
        mine = [(each.begin, max(each.end, each.begin + 1)) for each in of if each.part == part]
        if mine:
            first, last = min(begin for begin, _ in mine), max(end for _, end in mine)
            drawn.append(Bar((part, str(len(mine)), f"{first} s", f"{last} s"), mine))
    return drawn
