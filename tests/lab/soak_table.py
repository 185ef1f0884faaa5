"""The table of a soak test, and the page that has the last one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from bench.page import replace_below
from lab.paths import PROJECT
from tests.lab.history import silence

PAGE = PROJECT / "docs/soak.md"
HEADING = "## The last run\n"


@dataclass(frozen=True, kw_only=True)
class Happened:
    """A fault, from its beginning until everything was well again."""

    kind: str
    began: float
    well: float


@dataclass(frozen=True, kw_only=True)
class Soak:
    """One run; times of acknowledged writes in the order of the clock."""

    day: date
    seed: int
    minutes: int
    program: str
    kubernetes: str
    faults: Sequence[Happened]
    api: Sequence[float]
    volume: Sequence[float]

    def text(self) -> str:
        """The run in a sentence, and a table with a line for each kind of fault."""
        head = (
            f"{self.day:%Y-%m-%d}, `make lab-soak MINUTES={self.minutes} SEED={self.seed}`,"
            f" openstack-kubernetes {self.program}, Kubernetes {self.kubernetes}:"
            f" {len(self.faults)} faults, {len(self.api)} acknowledged writes through the API,"
            f" {len(self.volume)} lines on the volume."
        )
        lines = [
            "| fault | times | longest without API writes | without volume writes | until well |",
            "|---|---|---|---|---|",
        ]
        # What comes late still comes of this fault.
        ends = [*(fault.began for fault in self.faults[1:]), math.inf]
        until_next = dict(zip(self.faults, ends, strict=True))
        for kind in sorted({fault.kind for fault in self.faults}):
            faults = [fault for fault in self.faults if fault.kind == kind]
            seconds = [
                max(silence(times, fault.began, until_next[fault]) for fault in faults)
                for times in (self.api, self.volume)
            ]
            seconds.append(max(fault.well - fault.began for fault in faults))
            figures = " | ".join(f"{each:.1f} s" for each in seconds)
            lines.append(f"| {kind} | {len(faults)} | {figures} |")
        return "\n".join([head, "", *lines, ""])


def publish(soak: Soak, page: Path = PAGE) -> None:
    """Put the run in the place of the last one."""
    replace_below(page, HEADING, soak.text())
