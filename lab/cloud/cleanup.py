"""Remove everything that a lab leaves on the machine, however it ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.cloud import exposed, sysctls
from lab.cloud.layout import CGROUP, DRIVERS, POOL
from lab.console import say
from lab.paths import STATE

CGROUPS = Path("/sys/fs/cgroup")


def _detach_loops() -> None:
    """Detach the lab's loop devices: they belong to the machine and outlive the lab's processes."""
    subprocess.run([sys.executable, str(DRIVERS / "pool.py"), "release", str(POOL)], check=False)
    listed = subprocess.run(
        ["losetup", "--json", "--list", "--output", "NAME,BACK-FILE"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for device in json.loads(listed or '{"loopdevices": []}')["loopdevices"]:
        if (device["back-file"] or "").startswith(f"{STATE}/"):
            subprocess.run(["losetup", "--detach", device["name"]], check=False)


def _remove_cgroups() -> None:
    """Remove the servers' cgroups, from the leaves up; they are empty, their processes are gone."""
    # Others may vanish meanwhile, which a walk ignores.
    tops = [Path(at) / CGROUP for at, names, _ in os.walk(CGROUPS) if CGROUP in names]
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def clean() -> None:
    """Remove all but the cache. Call it only when no process of the lab is left."""
    for name in sysctls.restore():
        say(f"{name.replace('/', '.')} keeps the lab's value until the next boot: it is one-way")
    # The kernel would do it too, but only some time after the lab's last process has ended.
    exposed.turn_off()
    _detach_loops()
    _remove_cgroups()
    shutil.rmtree(STATE, ignore_errors=True)
