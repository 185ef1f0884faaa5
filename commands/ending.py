"""Signals that end a process with its clean-up."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any


def exit_on(numbers: Sequence[signal.Signals]) -> dict[signal.Signals, Any]:
    """Let these signals end the process as `sys.exit` does; returns their handlers of before.

    Once one has come, the others are ignored: they would stop the clean-up.
    """

    def end(received: int, _: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + received)

    return {number: signal.signal(number, end) for number in numbers}
