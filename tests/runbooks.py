"""The runbooks of docs/operations.md: an index, and pages of runbooks."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[1] / "docs"
INDEX = (_DOCS / "operations.md").read_text()
PAGES = {page.name: page.read_text() for page in sorted((_DOCS / "operations").glob("*.md"))}
TEXT = "\n".join((INDEX, *PAGES.values()))


def titles(page: str) -> list[str]:
    """The runbooks of a page. A comment in a block of commands has one # only."""
    return re.findall(r"^## (.+)$", PAGES[page], re.MULTILINE)


def runbook(title: str) -> str:
    """The text of a runbook that the index names, as messages and alerts do."""
    [page] = re.findall(rf"\[{re.escape(title)}\]\(operations/([\w-]+\.md)#", INDEX)
    _, text = PAGES[page].split(f"\n## {title}\n")
    return text.split("\n## ")[0]
