"""Folders of scripts and secrets on their way to a machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from components import packing
from components.packing import USERDATA, environment_file, pack, script_archive
from components.ssh import SCRIPT_SECONDS, ScriptSource, loader
from tests.unit.programs import program

SENT = f"openstack-kubernetes-scripts-{script_archive().checksum[:16]}.tar.gz"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment whose `sudo` runs the command as it is."""
    fake = program(tmp_path / "bin/sudo", '#!/bin/sh\nshift\nexec "$@"\n')
    return {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}


def run(
    files: dict[str, str],
    shell: dict[str, str],
    tmp_path: Path,
    *,
    seconds: int = 20,
    source: ScriptSource = ScriptSource.STDIN,
    tries: int = 2,
) -> subprocess.CompletedProcess[str]:
    line = loader("main.sh go", lock=f"test-{os.getpid()}", seconds=seconds, source=source)
    # The lock's folder is root's; a test has its own, and less patience.
    line = line.replace("/run/lock/", f"{tmp_path}/").replace("-lt 30", f"-lt {tries}")
    line = line.replace("sleep 2", "sleep 0.1")
    return subprocess.run(
        ["sh", "-c", line],
        input=pack(files),
        env=shell,
        text=True,
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )


def test_a_script_finds_its_folder_and_its_verb(shell: dict[str, str], tmp_path: Path) -> None:
    files = {"main.sh": 'echo "$1 $(cat pki/ca.crt)"\n', "pki/ca.crt": "certificate"}
    assert run(files, shell, tmp_path).stdout == "go certificate\n"


def copied(to: Path, name: str = SENT) -> Path:
    """The scripts in the home folder, as they are copied."""
    file = to / name
    file.write_bytes(script_archive().path.read_bytes())
    return file


@pytest.mark.parametrize("source", [ScriptSource.OWN_COPY, ScriptSource.ANY_COPY])
def test_a_script_finds_the_scripts_that_were_copied_before(
    shell: dict[str, str], tmp_path: Path, source: ScriptSource
) -> None:
    copied(tmp_path)
    files = {"main.sh": "cat settings; test -e lib/lib.sh\n", "settings": "of the run"}
    result = run(files, shell, tmp_path, source=source)
    assert (result.returncode, result.stdout) == (0, "of the run")


@pytest.mark.parametrize("content", [None, b"", b"something else"])
def test_without_them_it_does_not_run_and_tells_how_to_copy_them(
    shell: dict[str, str], tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / SENT).write_bytes(content)
    for source in (ScriptSource.OWN_COPY, ScriptSource.ANY_COPY):
        result = run({"main.sh": "echo ran"}, shell, tmp_path, source=source)
        assert (result.returncode, result.stdout) == (1, "")
        assert "copy them again, with pulumi up --replace '**:CopyToRemote::**'" in result.stderr


def test_a_command_of_an_earlier_program_takes_later_scripts_and_no_other_does(
    shell: dict[str, str], tmp_path: Path
) -> None:
    copied(tmp_path, SENT.replace(script_archive().checksum[:16], "0123456789abcdef"))
    files = {"main.sh": "test -e lib/lib.sh && echo ran\n"}
    assert run(files, shell, tmp_path, source=ScriptSource.ANY_COPY).stdout == "ran\n"
    assert run(files, shell, tmp_path, source=ScriptSource.OWN_COPY).stdout == ""


def test_a_machine_that_is_so_new_waits_for_them(shell: dict[str, str], tmp_path: Path) -> None:
    # They come while it waits.
    program(tmp_path / "bin/sleep", f"#!/bin/sh\ncp {script_archive().path} {tmp_path}/{SENT}\n")
    result = run({"main.sh": "echo ran\n"}, shell, tmp_path, source=ScriptSource.ANY_COPY)
    assert result.stdout == "ran\n"


def test_the_scripts_of_the_last_two_programs_are_kept(
    shell: dict[str, str], tmp_path: Path
) -> None:
    for age, name in enumerate("abcd"):
        file = copied(tmp_path, f"openstack-kubernetes-scripts-{name}.tar.gz")
        os.utime(file, (1000 - age, 1000 - age))
    copied(tmp_path)
    run({"main.sh": "true\n"}, shell, tmp_path, source=ScriptSource.OWN_COPY)
    left = {path.name for path in tmp_path.glob("*.tar.gz")}
    assert left == {SENT, *(f"openstack-kubernetes-scripts-{name}.tar.gz" for name in "ab")}


def test_nothing_remains_even_when_the_script_fails(shell: dict[str, str], tmp_path: Path) -> None:
    result = run({"main.sh": "pwd; exit 3\n", "secret": "s"}, shell, tmp_path)
    assert result.returncode == 3
    folder = Path(result.stdout.strip())
    assert folder.parent == Path("/dev/shm")
    assert not folder.exists()


def test_a_script_that_hangs_is_killed(shell: dict[str, str], tmp_path: Path) -> None:
    assert run({"main.sh": "exec sleep 60\n"}, shell, tmp_path, seconds=1).returncode == 124


def test_a_script_says_that_it_waits_for_an_earlier_run_and_ends_with_its_time(
    shell: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / f"openstack-kubernetes-test-{os.getpid()}").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        result = run({"main.sh": f"touch {tmp_path}/ran\n"}, shell, tmp_path, seconds=1)
    assert result.returncode == 1
    assert result.stderr == (
        "another run is at work on this machine: waiting for it to end\nit did not end within 1 s\n"
    )
    assert not (tmp_path / "ran").exists()


def in_turn(name: str, tmp_path: Path) -> str:
    """The line of a resource's script that waits for the others of its turn."""
    line = loader("main.sh go", lock=name, seconds=60, queue="drain-worker-0")
    return line.replace("/run/lock/", f"{tmp_path}/")


def test_scripts_in_turn_run_one_after_the_other(shell: dict[str, str], tmp_path: Path) -> None:
    script = f"echo in >>{tmp_path}/log; sleep 0.3; echo out >>{tmp_path}/log\n"
    runs = []
    for name in ("a", "b", "c"):
        line = in_turn(name, tmp_path)
        run = subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, env=shell, text=True)
        assert run.stdin is not None
        run.stdin.write(pack({"main.sh": script}))
        run.stdin.close()
        runs.append(run)
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    assert (tmp_path / "log").read_text().split() == ["in", "out"] * 3


def test_a_script_does_not_wait_for_its_turn_when_its_caller_is_gone(
    shell: dict[str, str], tmp_path: Path
) -> None:
    line = in_turn("a", tmp_path).replace("flock -w 5 8", "flock -w 0.1 8")
    line = line.replace("/dev/shm/", f"{tmp_path}/folder-of-")
    with (tmp_path / "openstack-kubernetes-drain-worker-0").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        read, write = os.pipe()
        waiting = subprocess.Popen(
            ["sh", "-c", line], stdin=subprocess.PIPE, stderr=write, env=shell, text=True
        )
        os.close(write)
        assert waiting.stdin is not None
        waiting.stdin.write(pack({"main.sh": f"touch {tmp_path}/ran\n"}))
        waiting.stdin.close()
        assert os.read(read, 100) == b"waiting for another run\n"
        os.close(read)
        assert waiting.wait(60) != 0
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("folder-of-*"))


# A wait with a limit in seconds: of its own, or a default that node.env may change.
WAIT = re.compile(
    r"\b(?:wait_for|limit=|COMMAND_TIMEOUT=|timeout(?: --timeout)?|--timeout)"
    r"[ =]?\"?(?:\$\{\w+:-)?(\d+)"
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
    # A timer runs the updates.
    found = (script for folder in folders for script in (USERDATA / folder).rglob("*.sh"))
    scripts = [script for script in found if script.name != "updates.sh"]
    limits = [int(limit) for script in scripts for limit in WAIT.findall(script.read_text())]
    assert limits
    assert sum(limits) < SCRIPT_SECONDS


def test_only_root_reads_the_folder(shell: dict[str, str], tmp_path: Path) -> None:
    result = run({"main.sh": "stat -c %a . secret\n", "secret": "s"}, shell, tmp_path)
    assert result.stdout.split() == ["700", "600"]


def test_the_same_files_are_the_same_text_so_that_nothing_changes() -> None:
    assert pack({"a": "1", "b": "2"}) == pack({"b": "2", "a": "1"})
    assert pack({"a": "1"}) != pack({"a": "2"})


def test_what_editors_and_file_managers_leave_is_no_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "edited").mkdir()
    for name in ("script.sh", "script.sh~", "script.sh.orig", ".script.sh.swp"):
        (tmp_path / "edited" / name).write_text("text")
    (tmp_path / "edited/.DS_Store").write_bytes(b"\xff")
    monkeypatch.setattr(packing, "USERDATA", tmp_path)
    assert packing.scripts("edited") == {"edited/script.sh": "text"}


def test_every_machine_that_runs_the_program_packs_in_the_same_way() -> None:
    """Another text runs every script again, as a newer library may: the changelog says so then."""
    packed = pack({"many": "".join(f"line {number}\n" for number in range(5000))})
    assert hashlib.sha256(packed.encode()).hexdigest() == (
        "990303c51e2fa694f52af63247470f43da4fa422bbd930d83539a07800419b53"
    )


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
