"""Waiting for what a test or a bench expects."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def until(true: Callable[[], object], what: str, seconds: float) -> None:
    """Ask every second until the answer is true; a failed assertion counts as not yet."""
    end = time.monotonic() + seconds
    while True:
        try:
            if true():
                return
            problem: object = "not yet"
        except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
            problem = error
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s: {problem}"
        time.sleep(1)
