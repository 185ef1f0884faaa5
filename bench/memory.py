"""Memory of processes, with shared pages counted once (PSS)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil


def kib(processes: Iterable[psutil.Process]) -> int:
    """Memory of all these processes in KiB."""
    total = 0
    for process in processes:
        # Processes may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += sum(int(w.split()[1]) for w in text.splitlines() if w.startswith("Pss:"))
    return total
