"""Disk images made from a folder: ext4 without a partition table, as qcow2 or raw."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.console import step
from lab.errors import LabError
from lab.paths import ensure

# The file system needs more than the files: journal, inode tables, space to boot.
_SPARE_BYTES = 400 << 20


def make_image(rootfs: Path, target: Path) -> Path:
    """Write `rootfs` into an ext4 file system at `target` (qcow2 by its suffix, else raw).

    The file system is small; a server that boots it grows it to the size of its disk. `target`
    appears only when it is complete.
    """
    ensure(target.parent)
    raw = target.with_name(f".{target.name}.raw")
    done = target.with_name(f".{target.name}.done")
    raw.unlink(missing_ok=True)
    used = int(_run("du", "--summarize", "--block-size=1", "--one-file-system", rootfs).split()[0])
    size = -(-(used * 108 // 100 + _SPARE_BYTES) // (64 << 20)) * (64 << 20)
    with step(f"make the disk image {target.name} ({used >> 20} MiB of files)"):
        try:
            with open(raw, "wb") as handle:
                os.truncate(handle.fileno(), size)
            _run(
                "mke2fs",
                "-q",
                "-F",
                "-t",
                "ext4",
                "-L",
                "root",
                "-m",
                "0",
                "-E",
                "lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0",
                "-d",
                rootfs,
                raw,
            )
            if target.suffix == ".qcow2":
                _run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, done)
            else:
                raw.rename(done)
            done.rename(target)
        finally:
            raw.unlink(missing_ok=True)
            done.unlink(missing_ok=True)
    return target


def _run(*command: str | Path) -> str:
    """Run a command and return its output; an error repeats the command's own message."""
    try:
        result = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise LabError(f"{command[0]} is missing: apt-get install e2fsprogs qemu-utils") from None
    if result.returncode != 0:
        raise LabError(f"{command[0]} failed: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout
