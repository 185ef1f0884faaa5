"""A backend that is a local folder (`pulumi login --local`): its files, and their repair."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from commands.pulumi_cli import backend_url, project

# By the stack's name.
Locks = Mapping[str, str]


def folder(url: str) -> Path | None:
    """The folder of the backend at `url`; None if it is elsewhere."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(f"{parts.netloc}{parts.path}", ".pulumi").expanduser()


def local_locks() -> Locks:
    """The locks of this project, and who holds them; in other backends, they cannot be seen."""
    local = folder(backend_url())
    if local is None:
        return {}
    files = (local / "locks/organization" / project()).glob("*/*.json")
    return {file.parent.name: _holder(file) for file in files}


def _holder(lock: Path) -> str:
    try:
        held = json.loads(lock.read_text())
        return f"locked by {held['username']}@{held['hostname']} since {held['timestamp'][:16]}Z"
    except (OSError, ValueError, LookupError):
        return "locked"  # just now, or no longer


def delete_empty_attributes(url: str) -> list[Path]:
    """Delete the empty attribute files of the backend at `url`, and return their paths.

    The backend writes `<stack>.json.attrs` in place, next to the state. Killed meanwhile, it leaves
    an empty file, and every command fails with `failed to load checkpoint: EOF`. The state itself
    is whole, and is read without attributes.
    """
    local = folder(url)
    if local is None:
        return []
    deleted = []
    for path in local.rglob("*.attrs"):
        # Another stack's run may just be deleting its own.
        with suppress(FileNotFoundError):
            if path.stat().st_size == 0:
                path.unlink()
                deleted.append(path)
    return deleted
