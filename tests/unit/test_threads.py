"""Ctrl+C while many clusters are being asked."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from rich.console import Console

from commands.fleet import report, upgrade

STACKS = [f"stack-{number:02}" for number in range(40)]
CONSOLE = Console(stderr=True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda act: report.entries(STACKS, CONSOLE, drift=True),
        lambda act: upgrade._of_each(STACKS, "Asking", CONSOLE, act),
    ],
)
def test_who_is_not_asked_yet_is_not_asked_any_more(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[Callable[..., object]], object]
) -> None:
    asked = []

    def act(stack: str, *_: object) -> None:
        asked.append(stack)
        if stack == STACKS[0]:
            raise KeyboardInterrupt
        time.sleep(0.05)

    monkeypatch.setattr(report, "_entry", act)
    monkeypatch.setattr(report, "local_locks", dict)
    with pytest.raises(KeyboardInterrupt):
        ask(act)
    assert len(asked) < len(STACKS) / 2
