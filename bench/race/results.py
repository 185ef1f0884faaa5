"""The runs of which docs/race.md shows the medians, in a file next to it.

They are kept in the repository because a race takes hours: each run that is added makes the medians
better, and an interrupted race continues.
"""

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
from lab.paths import PROJECT

FILE = PROJECT / "docs/race.json"


@dataclass(frozen=True, kw_only=True)
class Run:
    """The steps of one contestant; one that failed half-way has fewer."""

    version: str
    """The commit that ran."""
    day: str
    releases: Sequence[str]
    """Of Kubernetes: the first one, and that of the upgrade."""
    load: float
    """Of the machine before it, the average of a minute: what else was at work."""
    steps: Mapping[str, Step]


def load(file: Path = FILE) -> dict[str, list[Run]]:
    """Contestant -> its runs, oldest first."""
    return {
        contestant: [_read(run) for run in runs]
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
    file.write_text(json.dumps(plain, indent=1) + "\n")


def version(checkout: Path) -> str:
    """The newest commit of a checkout that changed more than its documentation.

    `-changed` follows it if the checkout has more changes of that kind.
    """

    def git(*words: str) -> str:
        command = ["git", "-C", str(checkout), *words, "--", ".", ":!docs"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    commit = git("log", "-1", "--abbrev=10", "--format=%h")
    return f"{commit}-changed" if git("status", "--porcelain", "--untracked-files=no") else commit


def with_run(runs: Sequence[Run], run: Run) -> list[Run]:
    """Add a run; those of other versions, or with other releases, say nothing about it."""
    same = (each for each in runs if (each.version, each.releases) == (run.version, run.releases))
    return [*same, run]


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
