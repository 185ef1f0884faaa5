"""Threads for what is asked of many clusters at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from commands.errors import CommandError

# Each waits for a program of Pulumi's, which takes half a core for a second.
AT_A_TIME = 8

Result = TypeVar("Result")


@contextmanager
def threads(at_a_time: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of `at_a_time` threads; an interruption cancels what has not begun."""
    with ThreadPoolExecutor(max_workers=at_a_time) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def attempted(ask: Callable[[str], Result]) -> Callable[[str], Result | CommandError]:
    """The same question, with an error as one of its answers."""

    def attempt(stack: str) -> Result | CommandError:
        try:
            return ask(stack)
        except CommandError as error:
            return error

    return attempt


def of_each(
    stacks: Sequence[str],
    ask: Callable[[str], Result],
    console: Console,
    *,
    title: str = "Asking the clusters",
    at_a_time: int = AT_A_TIME,
) -> list[Result]:
    """Ask about all stacks at the same time; returns the answers in this order.

    The console shows how many have answered, if it is a terminal.
    """
    with threads(at_a_time) as pool:
        asked = {pool.submit(ask, stack): stack for stack in stacks}
        done = track(
            as_completed(asked),
            title,
            len(asked),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        found = {asked[each]: each.result() for each in done}
    return [found[stack] for stack in stacks]
