"""Threads for what is asked of many clusters at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(at_a_time: int) -> Iterator[ThreadPoolExecutor]:
    """So many threads; after an interruption, what has not begun yet does not begin."""
    with ThreadPoolExecutor(max_workers=at_a_time) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
