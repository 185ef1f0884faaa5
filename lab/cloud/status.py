"""Status of the cloud's units: which are up, and why the others are not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from lab.cloud import exposed, namespace
from lab.cloud.layout import CLOUD_LOGS, STATUS
from lab.cloud.unit_status import UnitStatus
from lab.cloud.units import environment
from lab.paths import PROJECT, STATE


def units() -> list[UnitStatus]:
    """Read the supervisor's last report; empty before the first one."""
    try:
        return [UnitStatus(**unit) for unit in json.loads(STATUS.read_text())["units"]]
    except FileNotFoundError:
        return []


def silent() -> dict[str, str]:
    """Services that run but do not work, with the reason."""
    command = [sys.executable, "-m", "lab.cloud.probe"]
    result = subprocess.run(
        namespace.enter(command, environment={"PYTHONPATH": str(PROJECT)}, folder=PROJECT),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        said = (result.stderr.strip().splitlines() or ["no message"])[-1]
        return {"agents": f"the services could not be asked: {said}"}
    found: dict[str, str] = json.loads(result.stdout)
    return found


def show() -> int:
    """Print a table; the exit status is 0 when everything is up."""
    if not namespace.running():
        if STATE.exists():
            print(
                f"the cloud has ended by itself (see {CLOUD_LOGS / 'supervisor.log'}): clean up "
                "with `.venv/bin/python -m lab cloud down`, or start it again with `... cloud up`"
            )
        else:
            print("the cloud is down (start it with `.venv/bin/python -m lab cloud up`)")
        return 3
    listed = units()
    if listed and all(unit.ready for unit in listed):
        found = silent()
        listed = [
            replace(unit, state="silent", reason=found[unit.name]) if unit.name in found else unit
            for unit in listed
        ]
    table = Table("unit", "state", "since", "restarts", "why", box=None)
    for unit in listed:
        since = f"{time.time() - unit.since:.0f}s" if unit.since else ""
        bad = unit.state in ("failed", "silent")
        colour = "green" if unit.ready else "red" if bad else "yellow"
        why = f"{unit.reason} (log: {unit.log})" if unit.reason else ""
        table.add_row(unit.name, f"[{colour}]{unit.state}[/]", since, str(unit.restarts or ""), why)
    Console(width=None if Console().is_terminal else 200).print(table)
    if exposed.is_on():
        print(
            "this machine reaches the floating IPs (until `.venv/bin/python -m lab expose --off`)"
        )
    waiting = [unit.name for unit in listed if not unit.ready]
    print(f"not up: {', '.join(waiting)}" if waiting else "everything is up")
    return 1 if waiting or not listed else 0
