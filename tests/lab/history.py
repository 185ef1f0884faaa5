"""Histories of clients that write a number by compare-and-swap, and what must hold for them."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Outcome = Literal["read", "written", "refused", "unknown"]
# The number of an object that does not exist: less than every number that was ever written.
MISSING = -1


def now() -> float:
    """Seconds since the machine's boot: servers of the lab read the same clock in /proc/uptime."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One request: `written` is acknowledged, `unknown` may have been applied or not."""

    client: int
    began: float
    ended: float
    outcome: Outcome
    value: int

    def line(self) -> str:
        """The operation as a line of a file."""
        return json.dumps(asdict(self)) + "\n"


def load(file: Path, offset: int = 0) -> list[Operation]:
    """Read the operations after the first `offset` bytes, without a last line that is not whole."""
    with file.open() as lines:
        lines.seek(offset)
        return [Operation(**json.loads(line)) for line in lines if line.endswith("\n")]


def written(history: Iterable[Operation]) -> list[float]:
    """The times at which writes were acknowledged."""
    return sorted(each.ended for each in history if each.outcome == "written")


def violations(history: Sequence[Operation]) -> list[str]:
    """Every acknowledged write that is lost, or done twice, and every number that goes back."""
    counted = Counter(each.value for each in history if each.outcome == "written")
    found = [f"{value} was acknowledged {n} times" for value, n in counted.items() if n > 1]
    answers = [each for each in history if each.outcome in ("read", "written")]
    ended = sorted(answers, key=lambda each: each.ended)
    highest, position = MISSING, 0
    for each in sorted(answers, key=lambda each: each.began):
        # What ended before this began must be seen by this.
        while ended[position].ended < each.began:
            highest = max(highest, ended[position].value)
            position += 1
        least = highest + 1 if each.outcome == "written" else highest
        if each.value < least:
            found.append(
                f"client {each.client}: {each.value} {each.outcome} at {each.began:.1f} s, after"
                f" {highest} was seen"
            )
    return found


def silence(times: Sequence[float], began: float, ended: float) -> float:
    """The most seconds between two of these times, of the pairs that touch this time."""
    return max(
        (
            later - earlier
            for earlier, later in itertools.pairwise(times)
            if earlier < ended and later > began
        ),
        default=0.0,
    )
