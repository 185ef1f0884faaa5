"""Measured figures, and the table of them."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from commands.ending import exit_on
from lab.console import say

MISSED = "MISSED"

Result = TypeVar("Result")


@dataclass
class Figures:
    """Measured figures with their targets; `show` prints them as a table.

    As a context, they are shown at its end, and a missed target ends the bench with status 1.
    """

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def __enter__(self) -> Figures:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.show()
        if kind is None and self.missed:
            sys.exit(1)

    @property
    def missed(self) -> list[str]:
        """The figures that miss their targets."""
        return [f"{what}: {value}, {note}" for what, value, note in self.rows if MISSED in note]

    def add(self, what: str, value: float, unit: str = "s", at_most: float | None = None) -> None:
        """Add a figure; `at_most` is its target."""
        target = "" if at_most is None else f"at most {at_most:g} {unit}".rstrip()
        if at_most is not None and value > at_most:
            target = f"{target} {MISSED}"
        shown = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
        shown = f"{shown} {unit}".rstrip()
        self.rows.append((what, shown, target))
        say(f"FIGURE {what}: {shown}")

    def skip(self, what: str, why: str) -> None:
        """Add a figure that was not measured, with the reason."""
        self.rows.append((what, "not measured", why))

    def show(self) -> None:
        """Print the table and the machine's load: on a busy machine the figures say little."""
        widths = [max((len(row[column]) for row in self.rows), default=0) for column in (0, 1)]
        for what, value, target in self.rows:
            print(f"{what:{widths[0]}}  {value:>{widths[1]}}  {target}".rstrip())
        load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
        print(f"load of the last 1, 5, 15 minutes: {load} on {os.cpu_count()} processors")


def timed(action: Callable[[], Result]) -> tuple[Result, float]:
    """Measure the seconds that an action takes; returns its result, too."""
    began = time.monotonic()
    result = action()
    return result, time.monotonic() - began


def seconds(action: Callable[[], object]) -> float:
    """Measure the seconds that an action takes."""
    return timed(action)[1]


def processor_seconds() -> float:
    """Processor time, user and system, of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def median_of(action: Callable[[], float], runs: int) -> float:
    """Measure several times and return the median."""
    return median(action() for _ in range(runs))


def end_cleanly() -> None:
    """Make SIGTERM, and SIGINT also in the background, run the bench's cleanup before it ends."""
    exit_on((signal.SIGINT, signal.SIGTERM))
