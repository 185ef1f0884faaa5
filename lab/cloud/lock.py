"""The lock that allows one lab on a machine; the running lab holds it as long as it lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE

# On the machine, not in a cache folder: labs with different caches must see each other.
LOCK = Path("/run/lock/openstack-kubernetes-lab.lock")


def acquire() -> int:
    """Take the lock and return its descriptor, or fail with the name of its holder."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 4000).decode() or "unknown"
            os.close(descriptor)
            raise LabError(
                f"another lab is at work on this machine ({holder.strip()}): wait for it, or take "
                "it down with `.venv/bin/python -m lab cloud down` and "
                "OPENSTACK_KUBERNETES_LAB_CACHE set to that folder"
            ) from None
        # `release` removes the file, and a lock on a removed file protects nothing.
        if LOCK.exists() and os.fstat(descriptor).st_ino == LOCK.stat().st_ino:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()}, cache folder {CACHE}\n".encode())
            return descriptor
        os.close(descriptor)


def release(descriptor: int) -> None:
    """Release the lock and remove its file."""
    LOCK.unlink(missing_ok=True)
    os.close(descriptor)
