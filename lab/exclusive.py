"""What only one command at a time may do."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.console import step
from lab.paths import ensure


@contextmanager
def exclusive(lock: Path, other: str) -> Iterator[None]:
    """Hold this file's lock; `other` names what another command does that has it."""
    ensure(lock.parent)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(f"wait for {other} on this machine"):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
