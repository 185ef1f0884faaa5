"""What is up, and what is not and why."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.cloud import namespace
from lab.cloud.layout import CLOUD_LOGS, STATUS


@dataclass(frozen=True, kw_only=True)
class UnitStatus:
    """One line of the supervisor's status file."""

    name: str
    job: bool
    state: str
    pid: int
    since: float
    restarts: int
    reason: str

    @property
    def ready(self) -> bool:
        """Whether a service is up or a job is done."""
        return self.state in ("up", "done")

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return CLOUD_LOGS / f"{self.name}.log"


def units() -> list[UnitStatus]:
    """What the supervisor has written last; empty before it has written anything."""
    try:
        return [UnitStatus(**unit) for unit in json.loads(STATUS.read_text())["units"]]
    except FileNotFoundError:
        return []


def show() -> int:
    """Print a table; the exit status is 0 when everything is up."""
    if not namespace.running():
        print("the cloud is down (start it with `python -m lab cloud up`)")
        return 3
    listed = units()
    table = Table("unit", "state", "since", "restarts", "why", box=None)
    for unit in listed:
        since = f"{time.time() - unit.since:.0f}s" if unit.since else ""
        colour = "green" if unit.ready else "red" if unit.state == "failed" else "yellow"
        why = f"{unit.reason} (log: {unit.log})" if unit.reason else ""
        table.add_row(unit.name, f"[{colour}]{unit.state}[/]", since, str(unit.restarts or ""), why)
    Console(width=None if Console().is_terminal else 200).print(table)
    waiting = [unit.name for unit in listed if not unit.ready]
    print(f"not up: {', '.join(waiting)}" if waiting else "everything is up")
    return 1 if waiting or not listed else 0
