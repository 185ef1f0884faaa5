"""Folders that appear complete or not at all."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path


def link(source: Path, target: Path) -> None:
    """Make a hard link, or a copy on another file system.

    A symbolic link would not do: the programs look for their companions next to their real path.
    """
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def copy_program(source: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(source.read_bytes())
    partial.chmod(0o755)
    partial.rename(target)


def replace_folder(
    target: Path, sources: Iterable[Path], texts: dict[str, str] | None = None
) -> None:
    """Fill `target` with the files `sources` and the given texts, unless it has them already."""
    wanted = {source.name: source for source in sources}
    texts = texts or {}
    if target.is_dir() and {p.name for p in target.iterdir()} == {*wanted, *texts}:
        same = all(_same(source, target / name) for name, source in wanted.items())
        if same and all((target / name).read_text() == text for name, text in texts.items()):
            return
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, source in wanted.items():
        link(source, partial / name)
    for name, text in texts.items():
        (partial / name).write_text(text)
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.is_dir():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _same(one: Path, other: Path) -> bool:
    if not other.exists():
        return False
    a, b = one.stat(), other.stat()
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino) or (
        a.st_size == b.st_size and int(a.st_mtime) == int(b.st_mtime)
    )


def remove_others(folder: Path) -> None:
    """Remove builds of older sources: folders whose names differ only in the fingerprint."""
    name = re.sub(r"-[0-9a-f]{12}$", "", folder.name)
    for other in folder.parent.iterdir():
        if other != folder and re.fullmatch(rf"{re.escape(name)}-[0-9a-f]{{12}}", other.name):
            shutil.rmtree(other, ignore_errors=True)
