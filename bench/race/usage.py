"""Processor time and memory of a tool, with every process that it starts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from contextlib import AbstractContextManager

import psutil

from bench import memory
from bench.figures import processor_seconds

# prctl(2): orphans become this process's children, so that their processor time is counted too.
PR_SET_CHILD_SUBREAPER = 36
SAMPLE_SECONDS = 1.0


class Usage(AbstractContextManager["Usage"]):
    """The use of the processes that this one starts in the block, and waits for."""

    def __init__(self) -> None:
        # Seconds of all processors together, and MiB of all processes together at their peak.
        self.processor = 0.0
        self.memory = 0.0
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample)

    def __enter__(self) -> Usage:
        _adopt_orphans(True)
        self._before = _processor_seconds()
        self._sampler.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._sampler.join()
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
                if child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, 0)
        _adopt_orphans(False)
        self.processor = _processor_seconds() - self._before

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            used = memory.kib(psutil.Process().children(recursive=True))
            self.memory = max(self.memory, used / (1 << 10))


def _adopt_orphans(adopt: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def _processor_seconds() -> float:
    """Processor time of the children that have ended, and of those that still run."""
    total = processor_seconds()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total
