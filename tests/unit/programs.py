"""Programs that a test puts in the place of real ones."""

from __future__ import annotations

from pathlib import Path


def program(file: Path, text: str) -> Path:
    """Write a program that can be run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file
