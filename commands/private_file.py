"""Files that hold a key, a password or a kubeconfig."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commands.ending import exit_on

# A closed terminal, and `kill`: by default they end a process without its clean-up.
_ENDINGS = (signal.SIGHUP, signal.SIGTERM)
_PREFIX = "openstack-kubernetes-keys-"
# Seconds: after that, a folder without a lock has lost its process.
_LOCKED_WITHIN = 60


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    # What was there would keep its mode.
    file.unlink(missing_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(text)


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for such files, which leaves with this process; for the main thread only.

    What a process left that was killed, as Pulumi does on Ctrl-C, leaves with the next one.
    """
    _remove_abandoned()
    # What is ignored already, as under nohup, stays so.
    heard = [each for each in _ENDINGS if signal.getsignal(each) != signal.SIG_IGN]
    before = exit_on(heard)
    try:
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder, _locked(folder):
            yield Path(folder)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Another process may have it, or another user.
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - _LOCKED_WITHIN:
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: str | Path) -> Iterator[None]:
    """A lock that ends with this process.

    Raises:
        BlockingIOError: if another process has it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
