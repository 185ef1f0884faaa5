"""The program has one version: in versions.py, in the changelog, and where clusters tell it."""

import re
from pathlib import Path

import versions
from tests.unit.engine import Run

ROOT = Path(__file__).resolve().parents[2]


def test_the_changelog_begins_with_the_version_of_the_program() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == versions.PROGRAM


def test_the_stack_says_which_release_updated_it(fresh: Run) -> None:
    assert fresh.outputs["version"] == versions.PROGRAM


def test_the_last_release_is_a_commit() -> None:
    # The test on the lab says where a clone without its history gets it from.
    assert re.fullmatch(r"[0-9a-f]{40}\n", (ROOT / "tests/lab/released.txt").read_text())
