"""Progress, and Ctrl+C, while many clusters are being asked."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import pytest
from rich.console import Console

from commands.fleet import report, upgrade
from commands.fleet.threads import AT_A_TIME, of_each

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
        # Longer than the others need to hear of it.
        time.sleep(0.5)

    monkeypatch.setattr(report, "_entry", act)
    monkeypatch.setattr(report, "local_locks", dict)
    with pytest.raises(KeyboardInterrupt):
        ask(act)
    assert len(asked) <= AT_A_TIME + 1


def test_a_terminal_shows_how_many_have_answered_and_a_file_does_not() -> None:
    shown = {}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
        assert of_each(STACKS[:3], str.upper, console) == [each.upper() for each in STACKS[:3]]
        shown[terminal] = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Asking the clusters" in shown[True]
    assert shown[False] == ""
