"""Remove what a lab leaves on the machine, however it ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab.cloud.layout import CGROUP, DRIVERS, POOL, SYSCTL_BEFORE
from lab.paths import STATE

CGROUPS = Path("/sys/fs/cgroup")
SYSCTLS = {
    # systemd in every server and kubelet's watchers: 128 are used up by the third server.
    "fs/inotify/max_user_instances": 8192,
    "fs/inotify/max_user_watches": 524288,
}


def raise_limits() -> None:
    """Raise the machine-wide limits and write down what they were."""
    before = {name: int((Path("/proc/sys") / name).read_text()) for name in SYSCTLS}
    if not SYSCTL_BEFORE.exists():
        SYSCTL_BEFORE.write_text(json.dumps(before))
    for name, least in SYSCTLS.items():
        if before[name] < least:
            (Path("/proc/sys") / name).write_text(str(least))


def _restore_limits() -> None:
    with contextlib.suppress(FileNotFoundError, ValueError):
        for name, value in json.loads(SYSCTL_BEFORE.read_text()).items():
            (Path("/proc/sys") / name).write_text(str(value))


def _detach_loops() -> None:
    """Loop devices are the machine's, not the namespace's: they outlive the lab's processes."""
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
    """The servers' groups, from the leaves up. They are empty: their processes are gone."""
    for top in list(CGROUPS.rglob(CGROUP)):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def clean() -> None:
    """Leave nothing but the cache. Call it only when no process of the lab is left."""
    _restore_limits()
    _detach_loops()
    _remove_cgroups()
    shutil.rmtree(STATE, ignore_errors=True)
