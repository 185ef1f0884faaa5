"""Files that hold a key, a password or a kubeconfig."""

from __future__ import annotations

from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    # What was there would keep its mode.
    file.unlink(missing_ok=True)
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(text)
