"""Ask again until the answer is the right one, or the time is over. Times are in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

Answer = TypeVar("Answer")


def while_raising(error: type[Exception], seconds: float, pause: float) -> Retrying:
    """Repeat a function for as long as it raises this error; the last one is raised.

    The result calls a function, and its `wraps` is a decorator.
    """
    return Retrying(
        retry=retry_if_exception_type(error),
        wait=wait_fixed(pause),
        stop=stop_after_delay(seconds),
        reraise=True,
    )


def until(ask: Callable[[], Answer], seconds: float, pause: float) -> Answer:
    """Ask until the answer is true; returns the last one."""
    return _repeat(ask, lambda answer: not answer, seconds, pause)


def until_empty(ask: Callable[[], list[str]], seconds: float, pause: float) -> list[str]:
    """Ask until nothing is left; returns what is left at the end."""
    return _repeat(ask, bool, seconds, pause)


def until_no_fewer(ask: Callable[[], list[str]], seconds: float, pause: float) -> list[str]:
    """Ask until nothing is left, or nothing has gone for so long; returns what is left."""
    left, since = ask(), time.monotonic()
    while left and time.monotonic() < since + seconds:
        time.sleep(pause)
        before, left = len(left), ask()
        if len(left) < before:
            since = time.monotonic()
    return left


def _repeat(
    ask: Callable[[], Answer], wrong: Callable[[Answer], bool], seconds: float, pause: float
) -> Answer:
    return Retrying(
        retry=retry_if_result(wrong),
        wait=wait_fixed(pause),
        stop=stop_after_delay(seconds),
        # There is always an answer: an error has ended this before.
        retry_error_callback=lambda state: state.outcome.result(),  # type: ignore[union-attr]
    )(ask)
