"""install.sh: what it refuses, how it writes files, what it says when it fails."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

USERDATA = Path(__file__).resolve().parents[2] / "userdata"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="install.sh asks for root first")


def run(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in a folder of its own, so that no node.env is beside it."""
    script = folder / "install.sh"
    script.write_bytes((USERDATA / "install.sh").read_bytes())
    return subprocess.run(
        ["bash", script, *words],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("version", ["", "1.36.3", "v1.36", "latest", "v1.36.3; reboot"])
def test_it_says_how_a_version_looks(tmp_path: Path, version: str) -> None:
    result = run("all", folder=tmp_path, KUBERNETES_VERSION=version)
    assert result.returncode == 1
    assert f"KUBERNETES_VERSION is '{version}'; it must look like v1.36.3" in result.stderr


def test_the_environment_wins_over_node_env(tmp_path: Path) -> None:
    (tmp_path / "node.env").write_text("KUBERNETES_VERSION='v1.35.4'\n")
    result = run("all", folder=tmp_path, KUBERNETES_VERSION="nonsense")
    assert "'nonsense'" in result.stderr


def functions(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines with the script's functions defined and its main program left out."""
    text = (USERDATA / "install.sh").read_text()
    head, _, tail = text.rpartition('main "$@"')
    assert not tail.strip()
    script = folder / "functions.sh"
    script.write_text(f"{head}\n{lines}\n")
    return subprocess.run(["bash", script], capture_output=True, text=True, check=False)


def test_put_writes_only_what_differs(tmp_path: Path) -> None:
    result = functions(
        tmp_path,
        f"""
        put {tmp_path}/new/file <<<one && echo first
        put {tmp_path}/new/file <<<one || echo same
        put {tmp_path}/new/file <<<two && echo second
        """,
    )
    assert result.stdout.split() == ["first", "same", "second"]
    assert (tmp_path / "new/file").read_text() == "two\n"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["file"]


def test_put_keeps_empty_lines_at_the_end(tmp_path: Path) -> None:
    functions(tmp_path, f"printf 'a\\n\\n' | put {tmp_path}/file")
    assert (tmp_path / "file").read_text() == "a\n\n"


def test_a_failure_names_the_line_and_the_command(tmp_path: Path) -> None:
    result = functions(tmp_path, "broken() { ls /nowhere; }\nbroken")
    assert result.returncode == 1
    assert "failed: ls /nowhere" in result.stderr
