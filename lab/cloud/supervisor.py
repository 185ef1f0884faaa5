"""The first process of the lab's namespaces: starts the units in order and keeps them up.

It is process 1 of a process namespace, so when it ends, for whatever reason, the kernel ends
every process of the lab with it: nothing can be left half-started.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from lab.cloud import namespace, secrets
from lab.cloud.layout import CLOUD_LOGS, STATUS
from lab.cloud.units import Unit, environment, plan
from lab.paths import PROJECT, STATE, ensure

FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 30.0
# A service that ran this long had started well: the next failure backs off from the start again.
SETTLED = 60.0
EMPTY_LOG_LINE = re.compile(r"^[\d-]+ [\d:.]+ \d+ [A-Z]+ \S+\s*$")


@dataclass
class Report:
    """What `lab status` shows of one unit."""

    name: str
    job: bool
    state: str = "waiting"
    pid: int = 0
    since: float = 0.0
    restarts: int = 0
    reason: str = ""


def log_path(name: str) -> Path:
    """Where a unit's output goes."""
    return CLOUD_LOGS / f"{name}.log"


def last_words(name: str) -> str:
    """The last line of a unit's log that says something, as the reason of its failure."""
    with open(log_path(name), "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - 4000))
        lines = log.read().decode(errors="replace").strip().splitlines()
    # A traceback in an OpenStack log ends with a line of nothing but time, process and logger.
    telling = [line for line in lines if not EMPTY_LOG_LINE.match(line)]
    return telling[-1].strip()[-300:] if telling else "no output"


def why(status: int, name: str) -> str:
    """The reason of a unit's end; of what was killed, the log says nothing of interest."""
    if status == -signal.SIGKILL:
        return f"ended with status {status}: killed, by somebody or for want of memory"
    return f"ended with status {status}: {last_words(name)}"


def answers(unit: Unit) -> bool:
    """Whether a running service does its work already."""
    if unit.url:
        try:
            with urllib.request.urlopen(unit.url, timeout=10):
                return True
        except urllib.error.HTTPError as error:
            return error.code < 500
        except OSError:
            return False
    if unit.port:
        try:
            with socket.create_connection(unit.port, timeout=2):
                return True
        except OSError:
            return False
    return True


class Supervisor:
    """Runs every unit in a thread of its own; the threads wait for each other by events."""

    def __init__(self, units: list[Unit]) -> None:
        self.reports = {unit.name: Report(unit.name, unit.job) for unit in units}
        self.ready = {unit.name: threading.Event() for unit in units}
        self.units = units
        self.written = ""
        self.own: set[int] = set()
        self.lock = threading.Lock()

    def run(self) -> None:
        """Start every unit, then write the status and reap orphans for ever."""
        for unit in self.units:
            threading.Thread(target=self._keep, args=(unit,), name=unit.name, daemon=True).start()
        while True:
            # Looking through all processes is dear, and a zombie costs nothing for a while.
            self._reap_orphans()
            for _ in range(40):
                self._write_status()
                time.sleep(0.25)

    def _keep(self, unit: Unit) -> None:
        report = self.reports[unit.name]
        for name in unit.after:
            report.reason = f"waits for {name}"
            self.ready[name].wait()
        report.reason = ""
        back_off = FIRST_BACK_OFF
        while True:
            began = time.monotonic()
            status = self._run_once(unit)
            if unit.job and status == 0:
                self._set(unit, "done", pid=0)
                self.ready[unit.name].set()
                return
            if time.monotonic() - began > SETTLED:
                back_off = FIRST_BACK_OFF
            report.restarts += 1
            report.reason = why(status, unit.name)
            self._set(unit, "failed", pid=0)
            time.sleep(back_off)
            back_off = min(back_off * 2, LONGEST_BACK_OFF)

    def _run_once(self, unit: Unit) -> int:
        """Run the unit until it ends; a service becomes ready while it runs."""
        with open(log_path(unit.name), "ab") as log, self.lock:
            process = subprocess.Popen(
                list(unit.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=STATE,
                env={**environment(), **unit.environment},
                start_new_session=True,
            )
            self.own.add(process.pid)
        self._set(unit, "running" if unit.job else "starting", pid=process.pid)
        while not unit.job and process.poll() is None:
            if answers(unit):
                self._set(unit, "up", pid=process.pid)
                self.ready[unit.name].set()
                break
            time.sleep(0.2)
        status = process.wait()
        # What it had started goes with it, so that the next one finds the ports free.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with self.lock:
            self.own.discard(process.pid)
        return status

    def _set(self, unit: Unit, state: str, pid: int) -> None:
        report = self.reports[unit.name]
        report.state, report.pid, report.since = state, pid, time.time()

    def _write_status(self) -> None:
        text = json.dumps({"units": [asdict(report) for report in self.reports.values()]})
        if text == self.written:
            return
        self.written = text
        partial = STATUS.with_suffix(".partial")
        partial.write_text(text)
        partial.rename(STATUS)

    def _reap_orphans(self) -> None:
        """Collect what was left by others (dnsmasq, haproxy, containers): process 1 must."""
        with self.lock:
            for child in psutil.Process(1).children():
                with contextlib.suppress(psutil.Error, ChildProcessError):
                    if child.pid not in self.own and child.status() == psutil.STATUS_ZOMBIE:
                        os.waitpid(child.pid, os.WNOHANG)


def main() -> None:
    """Prepare the namespaces and run the units: `initialise` as argument makes the databases."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # An interrupt of the terminal is for `lab cloud up`, not for the cloud.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir(PROJECT)
    ensure(CLOUD_LOGS)
    namespace.furnish()
    Supervisor(plan(secrets.load(), initialise="initialise" in sys.argv[1:])).run()


if __name__ == "__main__":
    main()
