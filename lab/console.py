"""Progress messages with the time that has passed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_started = time.monotonic()
_depth = 0


def say(text: str) -> None:
    """Print one line with the seconds since the command started."""
    elapsed = time.monotonic() - _started
    print(f"[{elapsed:6.1f}s] {'  ' * _depth}{text}", file=sys.stderr, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Announce a step, then say how long it took. Steps nest."""
    global _depth
    began = time.monotonic()
    say(f"{text} ...")
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
    say(f"{text}: done in {time.monotonic() - began:.1f}s")
