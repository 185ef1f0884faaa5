"""Progress: what the lab is doing, how far it is and how long it has taken so far."""

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
    """Announce a step, and how long it took once it is done. Steps nest."""
    global _depth
    began = time.monotonic()
    say(f"{text} ...")
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
    say(f"{text}: done in {time.monotonic() - began:.1f}s")
