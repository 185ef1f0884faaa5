"""The steps of the race, and what is measured of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.figures import seconds
from bench.race.usage import Usage

CREATE = "3 control planes and 2 workers, until all are Ready"
ONE_MORE_WORKER = "one more worker"
NO_CHANGE = "a run without changes"
LOST_CONTROL_PLANE = "a lost control plane replaced"
UPGRADE = "Kubernetes upgraded by a minor version"
STEPS = (CREATE, ONE_MORE_WORKER, NO_CHANGE, LOST_CONTROL_PLANE, UPGRADE)


@dataclass(frozen=True)
class Step:
    """One step of one contestant.

    `seconds` are the tool's own; `servers` are those before it, until new servers answered SSH,
    where the tool does not make them. `processor` is in seconds, `memory` in MiB, at its peak.
    `by_hand` counts commands and edited files. `failed` and `silence` are of the API: failed polls,
    and the most seconds between two answers.
    """

    seconds: float
    processor: float
    memory: float
    by_hand: int
    servers: float = 0.0
    failed: int | None = None
    silence: float | None = None


def measured(action: Callable[[], object], by_hand: int = 0, servers: float = 0.0) -> Step:
    """Measure an action that runs a tool."""
    with Usage() as usage:
        taken = seconds(action)
    return Step(taken, usage.processor, usage.memory, by_hand, servers)
