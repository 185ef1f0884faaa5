"""Keep the cache folder small: programs stay, their sources and build caches go when needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab import gobuild
from lab.console import say, step
from lab.paths import CACHE, GO_CACHE, STATE

LARGEST = 20_000_000_000


def size(folder: Path | None = None) -> int:
    """Bytes on disk of a cache folder (default: this lab's), without what `lab down` removes."""
    root = CACHE if folder is None else folder
    result = subprocess.run(
        ["du", "--summarize", "--block-size=1", f"--exclude={STATE}", str(root)],
        capture_output=True,
        text=True,
        # A file may disappear while du reads it.
        check=False,
    )
    return int(result.stdout.split()[0])


def trim(most: int = LARGEST) -> None:
    """Empty Go's caches, one after the other, until the whole cache is no larger than `most`.

    Measuring takes seconds, so nothing is done unless something was built since the last time.
    """
    if gobuild.TRIMMED.exists():
        return
    with gobuild.build_lock(), step("measure the cache"):
        gobuild.remove_leftovers()
        now = size()
        for what, remove in STAGES.items():
            if now <= most:
                break
            say(f"{now / 1e9:.1f} GB, more than {most / 1e9:g}: emptying {what}")
            remove()
            now = size()
        gobuild.TRIMMED.touch()
    say(f"the cache has {now / 1e9:.1f} GB")


def _build_cache() -> None:
    _remove(GO_CACHE / "build")


def _extracted_modules() -> None:
    """Remove the extracted modules: the downloaded archives are enough to build offline."""
    for path in (GO_CACHE / "mod").glob("*"):
        if path.name != "cache":
            _remove(path)


def _modules() -> None:
    _remove(GO_CACHE / "mod")


STAGES: dict[str, Callable[[], None]] = {
    "Go's build cache": _build_cache,
    "Go's extracted modules": _extracted_modules,
    "Go's downloaded modules": _modules,
}


def _remove(folder: Path) -> None:
    if os.geteuid() != 0:
        # Go makes the folders of modules read-only.
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=False)
    shutil.rmtree(folder, ignore_errors=True)
