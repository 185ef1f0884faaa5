"""The lab's cache is kept small; here on a small copy of one."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab import cache, gobuild

MIB = 1 << 20


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a MiB of each kind, just after a build."""
    folder = tmp_path / "go"
    for module, name in ((cache, "CACHE"), (cache, "STATE"), (cache, "GO_CACHE"),
                         (gobuild, "GO_CACHE"), (gobuild, "TRIMMED")):  # fmt: skip
        place = {"CACHE": tmp_path, "STATE": tmp_path / "state", "TRIMMED": folder / "trimmed"}
        monkeypatch.setattr(module, name, place.get(name, folder))
    for file in ("bin/program", "state/pool", "go/build/00/a", "go/mod/example.org/m@v1.0.0/a.go",
                 "go/mod/cache/download/m.zip", "go/tmp/go-build1/a"):  # fmt: skip
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(MIB))
    # Go leaves them read-only.
    (folder / "mod/example.org/m@v1.0.0").chmod(0o555)
    return folder


def kept(go: Path) -> list[str]:
    files = [str(path.relative_to(go)) for path in go.rglob("*") if path.is_file()]
    return sorted(file for file in files if file not in ("lock", "trimmed"))


def test_the_size_does_not_include_the_running_lab(go: Path) -> None:
    assert 5 * MIB <= cache.size() < 5.5 * MIB


def test_a_small_cache_loses_only_what_no_build_needs(go: Path) -> None:
    cache.trim(most=6 * MIB)
    assert kept(go) == [
        "build/00/a", "mod/cache/download/m.zip", "mod/example.org/m@v1.0.0/a.go"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (3.5, ["mod/cache/download/m.zip", "mod/example.org/m@v1.0.0/a.go"]),
        (2.5, ["mod/cache/download/m.zip"]),
        (1.5, []),
        (0.5, []),
    ],
)
def test_no_more_is_removed_than_necessary(go: Path, most: float, left: list[str]) -> None:
    cache.trim(most=int(most * MIB))
    assert kept(go) == left
    assert (go.parent / "bin/program").exists()


def test_nothing_is_measured_unless_something_was_built(
    go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.trim()
    monkeypatch.setattr(cache, "size", lambda: pytest.fail("that takes seconds"))
    cache.trim(most=0)


@pytest.mark.parametrize(("free", "emptied"), [(11e9, True), (13e9, False)])
def test_a_nearly_full_disk_is_freed_before_a_build(
    go: Path, monkeypatch: pytest.MonkeyPatch, free: float, emptied: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    gobuild.make_room()
    assert (not list((go / "build").iterdir())) == emptied
