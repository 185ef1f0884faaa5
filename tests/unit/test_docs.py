"""What the documents say about versions, keys and files is so."""

import re
from pathlib import Path

import pytest

import versions
from config import SECRET_KEYS, Cluster

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")})
PINNED = {
    name: value
    for name, value in vars(versions).items()
    if name.isupper() and isinstance(value, str)
}


def anchor(heading: str) -> str:
    """GitHub's name for a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(h) for h in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("name", PINNED)
def test_the_readme_names_each_pinned_version(name: str) -> None:
    cells = re.findall(r"^\|[^|]*\|([^|]*)\|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert PINNED[name] in {version.strip() for cell in cells for version in cell.split(",")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if heading:
            assert heading in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_key_that_is_set_exists(page: Path) -> None:
    known = {field.alias for field in Cluster.model_fields.values()} | SECRET_KEYS.keys()
    commands = re.findall(r"pulumi config set((?: --\w+)*) '?(\w+)", page.read_text())
    assert {key for _, key in commands if key != "KEY"} <= known
