"""A saved copy of the filled databases, so that the next start takes seconds, not minutes."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from lab.cloud.layout import ETC, MYSQL, RUN, SECRETS, SEEDS, VERSIONS
from lab.paths import SOURCE, STATE, ensure

# The databases, and the keys and passwords that what is in them was made with.
SAVED = (MYSQL, SECRETS, ETC / "keystone" / "fernet-keys", ETC / "keystone" / "credential-keys")


def key() -> str:
    """Changes with everything that decides what the databases hold."""
    cloud = SOURCE / "cloud"
    sources = [VERSIONS, cloud / "layout.py", *sorted((cloud / "bootstrap").glob("*.py"))]
    digest = hashlib.sha256(b"1")
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _copy(source: Path, target: Path) -> None:
    ensure(target.parent)
    subprocess.run(
        ["cp", "-a", "--reflink=auto", "--sparse=always", str(source), str(target)], check=True
    )


def restore() -> bool:
    """Fill the state folder from the saved copy; False when there is none."""
    folder = SEEDS / key()
    if not folder.is_dir():
        return False
    for path in SAVED:
        _copy(folder / path.relative_to(STATE), path)
    return True


def save() -> None:
    """Copy the databases while MariaDB is frozen: what a crash would leave, which InnoDB repairs.

    Committed transactions are in the kernel's cache by then, and the copy reads them from there.
    """
    folder = SEEDS / key()
    partial = SEEDS / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    database = int((RUN / "mariadb.pid").read_text())
    os.kill(database, signal.SIGSTOP)
    try:
        for path in SAVED:
            _copy(path, partial / path.relative_to(STATE))
    finally:
        os.kill(database, signal.SIGCONT)
    # Only one is of use: those of other versions would only take space.
    for old in SEEDS.iterdir():
        if old != partial:
            shutil.rmtree(old)
    partial.rename(folder)


def forget() -> None:
    """Make the next start fill new databases."""
    shutil.rmtree(SEEDS, ignore_errors=True)


if __name__ == "__main__":
    save()
