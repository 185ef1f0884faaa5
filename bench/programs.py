"""The programs of an update, and when each of them used a processor."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from bench.picture import Bar

COLUMNS = ("program", "processor")
SAMPLE_SECONDS = 0.2
# Linux counts processor time in hundredths of a second.
BUSY = 0.05
# What starts the others uses less.
LEAST_SECONDS = 0.1


class Programs(AbstractContextManager["Programs"]):
    """The programs that this process starts in the block, and those that they start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._used: dict[str, float] = defaultdict(float)
        self._busy: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._seen: dict[psutil.Process, float] = {}
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample)

    def __enter__(self) -> Programs:
        self._sampler.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._sampler.join()

    def bars(self) -> list[Bar]:
        """A bar for each program, in the order in which they began to work."""
        return [
            Bar((name, f"{self._used[name]:.1f} s"), busy)
            for name, busy in sorted(self._busy.items(), key=lambda item: item[1][0])
            if self._used[name] >= LEAST_SECONDS
        ]

    def _sample(self) -> None:
        since = self._began
        while not self._over.wait(SAMPLE_SECONDS):
            used: dict[str, float] = defaultdict(float)
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    now = times.user + times.system
                    used[_name(process)] += now - self._seen.get(process, 0.0)
                    self._seen[process] = now
            until = time.monotonic()
            for name, seconds in used.items():
                self._used[name] += seconds
                if seconds >= BUSY:
                    self._busy[name].append((since - self._began, until - self._began))
            since = until


def _name(process: psutil.Process) -> str:
    """The file that a process runs, of an interpreter the script."""
    words = process.cmdline()
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    name = Path(words[0]).name if words else process.name()
    return f"{name} {Path(script).name}" if name.startswith("python") else name
