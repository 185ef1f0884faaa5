"""Pages of the documentation whose end a command writes."""

from __future__ import annotations

from pathlib import Path


def replace_below(page: Path, heading: str, text: str) -> None:
    """Put this text below a heading, in the place of the page's rest."""
    before, heading, _ = page.read_text().partition(heading)
    page.write_text(f"{before}{heading}\n{text}")
