"""Raw images fetched once and cloned for each disk; shared by the Nova and the Cinder driver."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def cached(folder: Path, image_id: str, fetch: Callable[[str], object]) -> Path:
    """The image as a raw file; `fetch(path)` writes it on the first call, in any process."""
    target = folder / image_id
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f".{image_id}.lock"):
            if not target.exists():
                partial = folder / f".{image_id}.partial"
                with contextlib.suppress(FileNotFoundError):
                    partial.unlink()
                fetch(str(partial))
                partial.rename(target)
    return target


def convert_command(source: Path, form: str, target: str) -> tuple[str, ...]:
    """The command that makes a raw image of one that is in a folder of this machine."""
    return ("qemu-img", "convert", "-f", form, "-O", "raw", "-W", str(source), target)


def clone_command(source: Path, target: Path) -> tuple[str, ...]:
    """The command that copies a disk: blocks are shared where the file system can."""
    return ("cp", "--reflink=auto", "--sparse=always", str(source), str(target))


def grow(disk: Path, size: int) -> None:
    """Make the file at least `size` bytes long; what is added takes no space."""
    if disk.stat().st_size < size:
        os.truncate(disk, size)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes. It polls: a blocking call would stop all green threads."""
    with open(path, "w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        yield
