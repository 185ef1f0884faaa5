"""Results of all runs so far: an interrupted race continues, and more runs make better medians."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.race.step import Step
from lab.paths import CACHE, ensure

FILE = CACHE / "race.json"


@dataclass(frozen=True, kw_only=True)
class Run:
    """The steps of one contestant; one that failed half-way has fewer."""

    version: str
    """The commit that ran."""
    day: str
    load: float
    """Of the machine before it, the average of a minute: what else was at work."""
    steps: Mapping[str, Step]


def load(file: Path = FILE) -> dict[str, list[Run]]:
    """Contestant -> its runs, oldest first; without those that an earlier release has kept."""
    if not file.exists():
        return {}
    return {
        contestant: [_read(run) for run in runs if "steps" in run]
        for contestant, runs in json.loads(file.read_text()).items()
    }


def _read(run: Mapping[str, Any]) -> Run:
    steps = {what: Step(**made) for what, made in run["steps"].items()}
    return Run(**{**run, "steps": steps})


def save(results: Mapping[str, Sequence[Run]], file: Path = FILE) -> None:
    """Write the runs of every contestant."""
    plain = {
        contestant: [dataclasses.asdict(run) for run in runs]
        for contestant, runs in results.items()
    }
    (ensure(file.parent) / file.name).write_text(json.dumps(plain, indent=1))


def version(checkout: Path) -> str:
    """The newest commit of a checkout that changed more than its documentation."""
    log = ("log", "-1", "--abbrev=10", "--format=%h", "--", ".", ":!docs")
    command = ["git", "-C", str(checkout), *log]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def with_run(runs: Sequence[Run], run: Run) -> list[Run]:
    """Add a run; those of other versions say nothing about it."""
    return [*(each for each in runs if each.version == run.version), run]


def medians(runs: Sequence[Run]) -> dict[str, Step]:
    """Every step with the median of each of its figures."""
    steps: dict[str, list[Step]] = {}
    for run in runs:
        for what, made in run.steps.items():
            steps.setdefault(what, []).append(made)
    return {what: _median(of) for what, of in steps.items()}


def _median(of: Sequence[Step]) -> Step:
    figures = {
        name: [value for step in of if (value := getattr(step, name)) is not None]
        for name in (field.name for field in dataclasses.fields(Step))
    }
    return Step(**{name: median(values) for name, values in figures.items() if values})
