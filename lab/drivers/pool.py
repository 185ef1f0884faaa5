"""The pool: one sparse XFS file that holds images, server disks and volumes.

XFS shares the blocks of copies (reflink), so a server's disk or a volume out of an image costs
neither time nor space. `python3 pool.py mount FOLDER` is for inside the lab's mount namespace;
`python3 pool.py release FOLDER` is for outside, when no process of the lab is left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# Sparse: it takes what is written, and gives back what is deleted (mounted with discard).
SIZE = 400 << 30


def mount(folder: Path) -> None:
    """Mount the pool at `folder`; its file is `folder`.xfs, made on the first call."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(folder):
        return
    file = folder.with_suffix(".xfs")
    if not file.exists():
        partial = file.with_suffix(".partial")
        with open(partial, "wb") as handle:
            os.truncate(handle.fileno(), SIZE)
        subprocess.run(["mkfs.xfs", "-q", "-f", "-m", "reflink=1", str(partial)], check=True)
        partial.rename(file)
    options = "loop,noatime,discard"
    subprocess.run(["mount", "-t", "xfs", "-o", options, str(file), str(folder)], check=True)
    for name in ("images", "instances", "volumes"):
        (folder / name).mkdir(exist_ok=True)


def release(folder: Path) -> None:
    """Detach the loop devices of the pool's files and of the pool itself.

    Volumes that were attached when the lab was killed keep their loop devices, those keep the
    file system and that keeps the pool's file.
    """
    loops = _loops()
    file = str(folder.with_suffix(".xfs"))
    for pool in [loop for loop in loops if str(loop["back-file"]).partition(" ")[0] == file]:
        for loop in loops:
            if "".join(str(loop["back-maj:min"]).split()) == pool["maj:min"].strip():
                subprocess.run(["losetup", "--detach", loop["name"]], check=False)
        subprocess.run(["losetup", "--detach", pool["name"]], check=False, capture_output=True)


def _loops() -> list[dict[str, str]]:
    columns = "NAME,MAJ:MIN,BACK-FILE,BACK-MAJ:MIN"
    listing = subprocess.run(
        ["losetup", "--json", "--list", "--output", columns],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return json.loads(listing or "{}").get("loopdevices", [])


if __name__ == "__main__":
    {"mount": mount, "release": release}[sys.argv[1]](Path(sys.argv[2]))
