"""Observe for how long an address does not answer, and crash a server."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psutil


def reachable(address: str, port: int, patience: float = 2.0) -> bool:
    try:
        socket.create_connection((address, port), timeout=patience).close()
    except OSError:
        return False
    return True


@contextmanager
def repeated(ask: Callable[[], object], pause: float) -> Iterator[None]:
    """Ask again and again in the background, after a pause in seconds each time."""
    over = threading.Event()

    def keep_asking() -> None:
        while not over.wait(pause):
            ask()

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def answer_times(address: str, port: int) -> Iterator[list[float]]:
    """Collect the times at which the port answered, asked some fifteen times a second."""
    answers: list[float] = []

    def ask() -> None:
        if reachable(address, port, 0.1):
            answers.append(time.monotonic())

    with repeated(ask, 0.05):
        yield answers


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
