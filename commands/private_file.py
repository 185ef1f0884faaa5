"""Files that hold a key, a password or a kubeconfig."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# A closed terminal, and `kill`: by default they end a process without its clean-up.
_ENDINGS = (signal.SIGHUP, signal.SIGTERM)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    # What was there would keep its mode.
    file.unlink(missing_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(text)


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for such files, which leaves with this process; for the main thread only."""
    # What is ignored already, as under nohup, stays so.
    heard = [each for each in _ENDINGS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, _end) for each in heard}
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _end(number: int, _: FrameType | None) -> None:
    for each in _ENDINGS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)
