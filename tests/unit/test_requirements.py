"""The locked Python packages fit what was asked for, and pip can check each of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.txt", "requirements-dev.txt")


def locked(name: str) -> dict[str, str]:
    """Package to version of a lock."""
    return dict(re.findall(r"^([\w.-]+)==([\w.+-]+)", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", LOCKS)
def test_each_package_has_a_hash_and_no_registry_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(locked(name))
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text


@pytest.mark.parametrize("name", LOCKS)
def test_an_exact_version_is_the_locked_one(name: str) -> None:
    asked = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.in").read_text(), re.MULTILINE)
    assert asked
    assert dict(asked).items() <= locked(name).items(), "run `make requirements`"


def test_development_has_the_versions_that_clusters_are_made_with() -> None:
    assert locked(LOCKS[0]).items() <= locked(LOCKS[1]).items(), "run `make requirements`"
