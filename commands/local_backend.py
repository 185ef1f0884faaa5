"""Repairs a backend that is a local folder (`pulumi login --local`)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit


def folder(url: str) -> Path | None:
    """The folder of the backend at `url`; None if it is elsewhere."""
    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    return Path(f"{parts.netloc}{parts.path}", ".pulumi").expanduser()


def delete_empty_attributes(url: str) -> list[Path]:
    """Delete the empty attribute files of the backend at `url`, and return their paths.

    The backend writes `<stack>.json.attrs` in place, next to the state. Killed meanwhile, it leaves
    an empty file, and every command fails with `failed to load checkpoint: EOF`. The state itself
    is whole, and is read without attributes.
    """
    local = folder(url)
    if local is None:
        return []
    empty = [path for path in local.rglob("*.attrs") if path.stat().st_size == 0]
    for path in empty:
        path.unlink()
    return empty
