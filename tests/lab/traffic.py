"""Observe for how long an address does not answer, and crash a server."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil


def reachable(address: str, port: int, patience: float = 2.0) -> bool:
    try:
        socket.create_connection((address, port), timeout=patience).close()
    except OSError:
        return False
    return True


@contextmanager
def answer_times(address: str, port: int) -> Iterator[list[float]]:
    """Collect the times at which the port answered, asked some fifteen times a second."""
    answers: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.05):
            if reachable(address, port, 0.1):
                answers.append(time.monotonic())

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


def crash(server_id: str) -> None:
    """Kill a server's first process, as a power cut would."""
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        if words.startswith("[lxc monitor]") and server_id in words:
            for child in process.children():
                child.send_signal(signal.SIGKILL)
            return
    raise AssertionError(f"no server {server_id} runs")


def longest_silence(answers: Sequence[float]) -> float:
    """Return the most seconds between two answers."""
    return max(later - before for before, later in itertools.pairwise(answers))
