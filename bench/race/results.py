"""Results of all runs so far: an interrupted race continues, and more runs make better medians."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.race.step import Step
from lab.paths import CACHE, ensure

FILE = CACHE / "race.json"
# A run that failed half-way has fewer steps.
Run = Mapping[str, Step]


def load(file: Path = FILE) -> dict[str, list[Run]]:
    """Contestant -> its runs, oldest first."""
    if not file.exists():
        return {}
    return {
        contestant: [{what: Step(**made) for what, made in run.items()} for run in runs]
        for contestant, runs in json.loads(file.read_text()).items()
    }


def save(results: Mapping[str, Sequence[Run]], file: Path = FILE) -> None:
    """Write the runs of every contestant."""
    plain = {
        contestant: [{what: dataclasses.asdict(made) for what, made in run.items()} for run in runs]
        for contestant, runs in results.items()
    }
    (ensure(file.parent) / file.name).write_text(json.dumps(plain, indent=1))


def medians(runs: Sequence[Run]) -> dict[str, Step]:
    """Every step with the median of each of its figures."""
    steps: dict[str, list[Step]] = {}
    for run in runs:
        for what, made in run.items():
            steps.setdefault(what, []).append(made)
    return {what: _median(of) for what, of in steps.items()}


def _median(of: Sequence[Step]) -> Step:
    figures = {
        name: [value for step in of if (value := getattr(step, name)) is not None]
        for name in (field.name for field in dataclasses.fields(Step))
    }
    return Step(**{name: median(values) for name, values in figures.items() if values})
