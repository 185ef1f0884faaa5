"""The bench of the very first start: it must not use or spoil this machine's caches."""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import cold
from lab.__main__ import COMMANDS
from lab.cloud import namespace
from lab.errors import LabError
from lab.paths import PROJECT


def test_every_cache_is_in_the_new_folder(tmp_path: Path) -> None:
    asked = (
        "import lab.paths as p, lab.toolchain.plugins as t, lab.gobuild as g\n"
        "e = g.go_environment()\n"
        "print(p.CACHE, p.BIN, p.GO_CACHE, t.home(), e['GOCACHE'], e['GOMODCACHE'], e['GOTMPDIR'])"
    )
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    result = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=PROJECT, env=cold.environment(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [p for p in result.stdout.split() if not p.startswith(f"{tmp_path}/")] == []
    assert len(result.stdout.split()) == 7


def test_pip_keeps_its_downloads_in_the_new_folder_too(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"],
        env=cold.environment(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.startswith(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("running", "free", "said"),
    [(7, 100, "a lab is running"), (0, 30, "30 GB are free"), (0, 100, "there already")],
)
def test_a_measurement_that_cannot_succeed_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: int, free: int, said: str
) -> None:
    monkeypatch.setattr(namespace, "running", lambda: running)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free * 10**9))
    folder = tmp_path if "already" in said else tmp_path / "new"
    with pytest.raises(LabError, match=said):
        cold.check(folder)


def test_the_plan_names_every_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cold.main(["--plan", "--folder", str(tmp_path / "new")])
    said = capsys.readouterr().out
    for words in ("OPENSTACK_KUBERNETES_LAB_CACHE=", "lab toolchain --build", "lab cloud up"):
        assert words in said
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [words for _, words in cold.STEPS], ids=" ".join)
def test_every_step_is_a_command_that_the_lab_knows(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[words[0]]).configure(parser)
    parser.parse_args(words[1:])
