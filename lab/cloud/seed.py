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

# The databases, and the keys and passwords that their contents depend on.
SAVED = (MYSQL, SECRETS, ETC / "keystone" / "fernet-keys", ETC / "keystone" / "credential-keys")


def key() -> str:
    """Hash everything that decides the contents of the databases."""
    cloud = SOURCE / "cloud"
    sources = [VERSIONS, cloud / "layout.py", cloud / "units.py"]
    for folder in ("bootstrap", "configs"):
        sources += sorted((cloud / folder).glob("*.py"))
    # A newer server refuses the files of an older one that look as after a crash.
    server = subprocess.run(["mariadbd", "--version"], capture_output=True, check=True)
    digest = hashlib.sha256(server.stdout)
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _copy(source: Path, target: Path) -> None:
    ensure(target.parent)
    subprocess.run(
        ["cp", "-a", "--reflink=auto", "--sparse=always", str(source), str(target)], check=True
    )


def restore() -> bool:
    """Fill the state folder from the saved copy; return False when there is none."""
    folder = SEEDS / key()
    if not folder.is_dir():
        return False
    for path in SAVED:
        _copy(folder / path.relative_to(STATE), path)
    return True


def save() -> None:
    """Copy the databases while MariaDB is stopped by a signal.

    The copy is in the state of a crash, which InnoDB repairs. Committed transactions are in the
    kernel's cache by then, where the copy reads them.
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
    # Copies of other versions would only take space.
    for old in SEEDS.iterdir():
        if old != partial:
            shutil.rmtree(old)
    partial.rename(folder)


def forget() -> None:
    """Remove the saved copy: the next start creates new databases."""
    shutil.rmtree(SEEDS, ignore_errors=True)


if __name__ == "__main__":
    save()
