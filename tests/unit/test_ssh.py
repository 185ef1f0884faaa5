"""Folders of scripts and secrets on their way to a machine."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from components.ssh import SCRIPT_SECONDS, USERDATA, environment_file, loader, pack


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment whose `sudo` runs the command as it is."""
    fake = tmp_path / "bin" / "sudo"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    return {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}


def run(
    files: dict[str, str], shell: dict[str, str], tmp_path: Path, *, seconds: int = 20
) -> subprocess.CompletedProcess[str]:
    line = loader("main.sh go", lock=f"test-{os.getpid()}", seconds=seconds)
    # The lock's folder is root's; a test has its own.
    line = line.replace("/run/lock/", f"{tmp_path}/")
    return subprocess.run(
        ["sh", "-c", line],
        input=pack(files),
        env=shell,
        text=True,
        capture_output=True,
        check=False,
    )


def test_a_script_finds_its_folder_and_its_verb(shell: dict[str, str], tmp_path: Path) -> None:
    files = {"main.sh": 'echo "$1 $(cat pki/ca.crt)"\n', "pki/ca.crt": "certificate"}
    assert run(files, shell, tmp_path).stdout == "go certificate\n"


def test_nothing_remains_even_when_the_script_fails(shell: dict[str, str], tmp_path: Path) -> None:
    result = run({"main.sh": "pwd; exit 3\n", "secret": "s"}, shell, tmp_path)
    assert result.returncode == 3
    folder = Path(result.stdout.strip())
    assert folder.parent == Path("/dev/shm")
    assert not folder.exists()


def test_a_script_that_hangs_is_killed(shell: dict[str, str], tmp_path: Path) -> None:
    assert run({"main.sh": "exec sleep 60\n"}, shell, tmp_path, seconds=1).returncode == 124


# A wait with a limit in seconds: of its own, or a default that node.env may change.
WAIT = re.compile(
    r"\b(?:wait_for|limit=|timeout(?: --timeout)?|--timeout)[ =]?\"?(?:\$\{\w+:-)?(\d+)"
)


@pytest.mark.parametrize(
    "folders",
    [
        ("lib", "install", "node", "control-plane"),
        # A membership runs the role's own script on the node.
        ("lib", "cluster", "node", "worker"),
    ],
)
def test_a_script_has_more_time_than_all_its_waits_together(folders: tuple[str, ...]) -> None:
    scripts = [script for folder in folders for script in (USERDATA / folder).rglob("*.sh")]
    limits = [int(limit) for script in scripts for limit in WAIT.findall(script.read_text())]
    assert limits
    assert sum(limits) < SCRIPT_SECONDS


def test_only_root_reads_the_folder(shell: dict[str, str], tmp_path: Path) -> None:
    result = run({"main.sh": "stat -c %a . secret\n", "secret": "s"}, shell, tmp_path)
    assert result.stdout.split() == ["700", "600"]


def test_the_same_files_are_the_same_text_so_that_nothing_changes() -> None:
    assert pack({"a": "1", "b": "2"}) == pack({"b": "2", "a": "1"})
    assert pack({"a": "1"}) != pack({"a": "2"})


def test_an_environment_file_is_plain_data_to_the_shell(tmp_path: Path) -> None:
    values: dict[str, str | int | bool] = {
        "NAME": "it's $(touch /tmp/no) `x`",
        "COUNT": 3,
        "YES": True,
    }
    path = tmp_path / "node.env"
    path.write_text(environment_file(values))
    result = subprocess.run(
        ["bash", "-c", f'. {path}; printf "%s\\n" "$NAME" "$COUNT" "$YES"'],
        text=True,
        capture_output=True,
        check=True,
    )
    assert result.stdout.splitlines() == ["it's $(touch /tmp/no) `x`", "3", "true"]
