"""Start the units in order and keep them up, as the first process of the lab's namespaces.

It is process 1 of a process namespace, so when it ends, for whatever reason, the kernel ends
every process of the lab with it: nothing is left half started.
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
from dataclasses import asdict
from pathlib import Path

import psutil

from lab.cloud import namespace, secrets
from lab.cloud.layout import CLOUD_LOGS, STATUS
from lab.cloud.unit_status import UnitStatus
from lab.cloud.units import Unit, environment, plan
from lab.paths import PROJECT, STATE, ensure

FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 30.0
# A service that ran this long had started well: its next failure begins with the first back-off.
HEALTHY_AFTER = 60.0
# As a shell says that there is no such program.
CANNOT_RUN = 127
EMPTY_LOG_LINE = re.compile(r"^[\d-]+ [\d:.]+ \d+ [A-Z]+ \S+\s*$")


def last_words(log: Path) -> str:
    """Return the last telling line of a unit's log, as the reason for its failure."""
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
        lines = file.read().decode(errors="replace").strip().splitlines()
    # A traceback in an OpenStack log ends with a line of nothing but time, process and logger.
    telling = [line for line in lines if not EMPTY_LOG_LINE.match(line)]
    return telling[-1].strip()[-300:] if telling else "no output"


def why(status: int, log: Path) -> str:
    """Return the reason why a unit ended; the log of a killed one does not say."""
    if status == -signal.SIGKILL:
        return f"ended with status {status}: killed, by someone or because memory ran out"
    return f"ended with status {status}: {last_words(log)}"


def answers(unit: Unit) -> bool:
    """True if a running service answers."""
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
        self.reports = {unit.name: UnitStatus(name=unit.name, job=unit.job) for unit in units}
        self.ready = {unit.name: threading.Event() for unit in units}
        self.units = units
        self.written = ""
        self.own: set[int] = set()
        self.lock = threading.Lock()

    def run(self) -> None:
        """Start every unit, then write the status and reap orphans until killed."""
        for unit in self.units:
            threading.Thread(target=self._keep, args=(unit,), name=unit.name, daemon=True).start()
        while True:
            # Looking through all processes is expensive, and zombies do no harm for a while.
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
            if time.monotonic() - began > HEALTHY_AFTER:
                back_off = FIRST_BACK_OFF
            report.restarts += 1
            report.reason = why(status, report.log)
            self._set(unit, "failed", pid=0)
            time.sleep(back_off)
            back_off = min(back_off * 2, LONGEST_BACK_OFF)

    def _run_once(self, unit: Unit) -> int:
        """Run the unit until it ends; mark a service as up as soon as it answers."""
        with open(self.reports[unit.name].log, "ab") as log, self.lock:
            try:
                process = subprocess.Popen(
                    list(unit.command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=STATE,
                    env={**environment(), **unit.environment},
                    start_new_session=True,
                )
            except OSError as error:
                log.write(f"{error}\n".encode())
                return CANNOT_RUN
            self.own.add(process.pid)
        self._set(unit, "running" if unit.job else "starting", pid=process.pid)
        while not unit.job and process.poll() is None:
            if answers(unit):
                self._set(unit, "up", pid=process.pid)
                self.ready[unit.name].set()
                break
            time.sleep(0.2)
        status = process.wait()
        # Its children must end too, so that the next start finds the ports free.
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
        partial = STATUS.with_suffix(".partial")
        # A full disk must not end the lab.
        with contextlib.suppress(OSError):
            partial.write_text(text)
            partial.rename(STATUS)
            self.written = text

    def _reap_orphans(self) -> None:
        """Reap the orphans of other processes (dnsmasq, haproxy, containers), as process 1 must."""
        with self.lock:
            for child in psutil.Process(1).children():
                with contextlib.suppress(psutil.Error, ChildProcessError):
                    if child.pid not in self.own and child.status() == psutil.STATUS_ZOMBIE:
                        os.waitpid(child.pid, os.WNOHANG)


def main() -> None:
    """Set up the namespaces and run the units; the argument `initialize` creates the databases."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Ctrl-C in the terminal ends `lab cloud up`, not the cloud.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir(PROJECT)
    ensure(CLOUD_LOGS)
    namespace.furnish()
    Supervisor(plan(secrets.load(), initialize="initialize" in sys.argv[1:])).run()


if __name__ == "__main__":
    main()
