"""Pulumi in a workspace of its operator: one update at a time, repaired after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from commands.workspace import left_behind
from tests.unit.programs import program

ROOT = Path(__file__).resolve().parents[2]
WRAPPER = ROOT / "commands/workspace.sh"
CLI = "/opt/pulumi/bin/pulumi"

# As the CLI says it: version 3.259, with a bucket or a folder.
LOCKED = """\
error: the stack is currently locked by {count} lock(s). Either wait for the other process(es) to \
end or delete the lock file with `pulumi cancel`.
"""
HELD = (
    "  s3://state/.pulumi/locks/organization/p/shop/1.json: created by pulumi@{} (pid 7) at now\n"
)

# Locked while there is a file `lock`, which `cancel` removes; slow while there is one `slow`.
PULUMI = """\
#!/bin/sh
echo "$@" >>"{folder}/calls"
trap 'echo interrupted >>"{folder}/calls"; exit 3' INT
[ "$1" != --non-interactive ] || shift
case $1 in
  up)
    echo "progress"
    [ ! -e "{folder}/lock" ] || {{ cat "{folder}/lock" >&2; exit 255; }}
    [ ! -e "{folder}/failing" ] || {{ echo "error: 504" >&2; exit 1; }}
    while [ -e "{folder}/slow" ]; do sleep 0.1; done
    echo "end of $2" >>"{folder}/calls"
    ;;
  destroy) [ ! -e "{folder}/lock" ] || {{ cat "{folder}/lock" >&2; exit 255; }} ;;
  state) [ ! -e "{folder}/lock" ] || {{ cat "{folder}/lock" >&2; exit 255; }}; echo unprotected ;;
  config) [ ! -e "{folder}/protection" ] || cat "{folder}/protection" ;;
  cancel) rm "{folder}/lock" ;;
  whoami) echo '{{"url": "s3://state"}}' ;;
  stack) [ "$2" = history ] && cat "{folder}/history" || echo '{{"deployment": {{}}}}' ;;
  preview) echo '{{"steps": []}}' ;;
  *) exit 9 ;;
esac
"""


def lock(*machines: str) -> str:
    return LOCKED.format(count=len(machines)) + "".join(HELD.format(each) for each in machines)


class Workspace:
    """A pod with a CLI that plays Pulumi's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cli = program(folder / "pulumi", PULUMI.format(folder=folder))
        (folder / "history").write_text("[]")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "commands.workspace", str(self.cli), *words],
            cwd=ROOT,
            env={
                **os.environ,
                "PATH": f"{self.folder}:{os.environ['PATH']}",
                "TMPDIR": str(self.folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Tests in the background ignore Ctrl-C, and their children would, too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def lock(self, *machines: str) -> None:
        (self.folder / "lock").write_text(lock(*machines))

    def last_failed(self) -> None:
        """Let the last update be one that has failed."""
        update = {"result": "failed", "startTime": "2026-11-22T03:04:05.000Z"}
        (self.folder / "history").write_text(json.dumps([update]))

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def until(self, call: str) -> None:
        _until(lambda: (self.folder / "calls").exists() and call in self.calls)


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_an_update_runs_as_it_was_asked_for(workspace: Workspace) -> None:
    assert workspace.run("up", "--stack", "shop") == (0, "progress\n", "")
    assert workspace.calls == ["up --stack shop", "end of --stack"]


def test_what_a_killed_update_of_this_pod_left_behind_is_repaired(workspace: Workspace) -> None:
    workspace.lock(socket.gethostname())
    workspace.last_failed()
    status, out, err = workspace.run("up", "--stack", "shop")
    assert status == 0
    assert out == "progress\nprogress\n"
    assert "nothing was being created" in err
    assert "cancel --yes --stack shop --non-interactive" in workspace.calls
    assert workspace.calls[-1] == "end of --stack"
    # What the next one would create may be a living cluster, to an older copy of the state.
    assert not any(call.startswith("preview") for call in workspace.calls)


@pytest.mark.parametrize("words", [["--stack=shop"], ["-s", "shop"], ["-sshop"]])
def test_the_stack_that_is_named_in_any_form_is_the_one_that_is_repaired(
    workspace: Workspace, words: list[str]
) -> None:
    workspace.lock(socket.gethostname())
    assert workspace.run("up", *words, "--config-file=other.yaml")[0] == 0
    assert "cancel --yes --stack shop --non-interactive" in workspace.calls


def test_what_a_failed_update_has_left_is_compared_with_its_own_configuration(
    workspace: Workspace,
) -> None:
    (workspace.folder / "failing").touch()
    workspace.last_failed()
    workspace.run("up", "-s", "shop", "--config-file", "other.yaml")
    [preview] = [call for call in workspace.calls if call.startswith("preview")]
    assert "--stack shop" in preview
    assert "--config-file other.yaml" in preview


@pytest.mark.parametrize(
    ("option", "off"), [("--run-program", "false"), ("--run-program=true", "False")]
)
def test_a_destroy_does_without_the_program_and_its_checks(
    workspace: Workspace, option: str, off: str
) -> None:
    destroy = ("destroy", "--yes", option, "--stack", "shop")
    assert workspace.run(*destroy) == (0, "", "")
    asked, ran = "config get deletionProtection --stack shop", "destroy --yes --stack shop"
    assert workspace.calls == [asked, ran]
    (workspace.folder / "protection").write_text(f"{off}\n")
    # The operator reads standard output as that of the destroy.
    assert workspace.run(*destroy) == (0, "", "unprotected\n")
    unprotect = "state unprotect --all --yes --non-interactive --stack shop"
    assert workspace.calls[2:] == [asked, unprotect, ran]


@pytest.mark.parametrize("on", ["true", "Yes", "unclear"])
def test_a_destroy_leaves_a_protected_cluster_protected(workspace: Workspace, on: str) -> None:
    (workspace.folder / "protection").write_text(f"{on}\n")
    workspace.run("destroy", "--yes", "--run-program", "--stack", "shop")
    assert not any(call.startswith("state") for call in workspace.calls)


def test_a_destroy_after_a_killed_update_is_repaired_first(workspace: Workspace) -> None:
    (workspace.folder / "protection").write_text("no\n")
    workspace.lock(socket.gethostname())
    destroy = ("--non-interactive", "destroy", "--run-program=true", "--stack", "shop")
    status, _, _ = workspace.run(*destroy)
    assert status == 0
    assert "cancel --yes --stack shop --non-interactive" in workspace.calls
    assert workspace.calls[-1] == "--non-interactive destroy --stack shop"


def test_a_lock_of_someone_else_is_theirs(workspace: Workspace) -> None:
    for machines in (["laptop"], [socket.gethostname(), "laptop"]):
        workspace.lock(*machines)
        status, _, err = workspace.run("up", "--stack", "shop")
        assert (status, err) == (255, lock(*machines))
    assert set(workspace.calls) == {"up --stack shop"}


def test_what_a_failed_update_has_left_is_looked_for_before_the_operator_tries_again(
    workspace: Workspace,
) -> None:
    (workspace.folder / "failing").touch()
    update = {"result": "failed", "startTime": "2026-11-22T03:04:05.000Z"}
    (workspace.folder / "history").write_text(json.dumps([update]))
    status, out, err = workspace.run("up", "--stack", "shop")
    assert (status, out) == (1, "progress\n")
    assert err.startswith("error: 504\n")
    assert any(call.startswith("preview --json --stack shop") for call in workspace.calls)
    assert workspace.calls.count("up --stack shop") == 1
    assert not any(call.startswith("cancel") for call in workspace.calls)


def test_another_failure_is_only_told(workspace: Workspace) -> None:
    assert workspace.run("oops")[0] == 9
    assert workspace.calls == ["oops"]


def test_an_update_waits_for_one_that_has_outlived_its_operator(workspace: Workspace) -> None:
    slow = workspace.folder / "slow"
    slow.touch()
    first = workspace.start("up", "first")
    workspace.until("up first")
    first.kill()
    # Its pipes are still Pulumi's.
    first.wait(timeout=30)
    with workspace.start("up", "second") as second:
        assert second.stderr is not None
        assert second.stderr.readline() == "waiting for another update in this container\n"
        assert workspace.calls == ["up first"]
        slow.unlink()
        second.communicate(timeout=30)
    first.communicate(timeout=30)
    assert workspace.calls == ["up first", "end of first", "up second", "end of second"]


def test_an_interruption_reaches_pulumi(workspace: Workspace) -> None:
    (workspace.folder / "slow").touch()
    with workspace.start("up", "first") as update:
        workspace.until("up first")
        update.send_signal(signal.SIGINT)
        update.communicate(timeout=30)
    assert update.returncode == 3
    assert workspace.calls[-1] == "interrupted"


def test_an_interruption_while_it_waits_begins_nothing(workspace: Workspace) -> None:
    slow = workspace.folder / "slow"
    slow.touch()
    with workspace.start("up", "first") as first:
        workspace.until("up first")
        with workspace.start("up", "second") as second:
            assert second.stderr is not None
            told = second.stderr.readline()
            second.send_signal(signal.SIGINT)
            second.wait(timeout=30)
            told += second.stderr.read()
        slow.unlink()
        first.communicate(timeout=30)
    assert second.returncode == 130
    assert told == "waiting for another update in this container\n"
    assert "up second" not in workspace.calls


def test_an_interruption_during_the_repair_begins_no_other_update(workspace: Workspace) -> None:
    workspace.lock(socket.gethostname())
    cli = workspace.cli.read_text()
    slow = f'cancel) while [ -e "{workspace.folder}/slow" ]; do sleep 0.1; done;'
    workspace.cli.write_text(cli.replace("cancel)", slow))
    (workspace.folder / "slow").touch()
    with workspace.start("up", "--stack", "shop") as update:
        workspace.until("cancel --yes --stack shop --non-interactive")
        update.send_signal(signal.SIGINT)
        (workspace.folder / "slow").unlink()
        update.communicate(timeout=30)
    assert update.returncode == 255
    assert workspace.calls.count("up --stack shop") == 1


def test_what_pulumi_says_may_be_in_any_encoding(workspace: Workspace) -> None:
    workspace.cli.write_text("#!/bin/sh\nprintf 'f\\374r' >&2\n")
    status, _, err = workspace.run("up")
    assert (status, err) == (0, "f\ufffdr")


@pytest.mark.parametrize(
    ("said", "ours"),
    [
        (lock("pod"), True),
        (lock("pod", "pod"), True),
        (lock("pod-1"), False),
        # Not everyone who holds it is named.
        (LOCKED.format(count=2) + HELD.format("pod"), False),
        (HELD.format("pod"), False),
        ("", False),
    ],
)
def test_only_a_stack_that_this_machine_alone_has_locked_is_repaired(said: str, ours: bool) -> None:
    assert left_behind(said, "pod") == ours


class TestCommand:
    """The command `pulumi` of the image."""

    @staticmethod
    def run(folder: Path, *words: str) -> tuple[int, str]:
        program(folder / "pulumi", '#!/bin/sh\necho "real $@"\n')
        program(folder / ".venv/bin/python", '#!/bin/sh\necho "python $@"\n')
        program(folder / "wrapper", WRAPPER.read_text().replace(CLI, str(folder / "pulumi")))
        done = subprocess.run(
            [folder / "wrapper", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.replace(str(folder), "")

    @pytest.mark.parametrize("verb", ["up", "destroy", "refresh"])
    def test_it_repairs_before_it_changes_anything(self, tmp_path: Path, verb: str) -> None:
        # The operator's agent puts an option first.
        for words in ([verb, "--yes"], ["--non-interactive", verb, "--yes"]):
            said = f"python -m commands.workspace /pulumi {' '.join(words)}\n"
            assert self.run(tmp_path, *words) == (0, said)

    @pytest.mark.parametrize("words", [["stack", "select", "up"], ["version"], []])
    def test_all_else_is_pulumis_own(self, tmp_path: Path, words: list[str]) -> None:
        assert self.run(tmp_path, *words) == (0, f"real {' '.join(words)}\n")

    def test_it_installs_nothing(self, tmp_path: Path) -> None:
        for words in (["install"], ["--non-interactive", "install"]):
            assert self.run(tmp_path, *words) == (0, "")


class TestImage:
    TEXT = (ROOT / "Containerfile").read_text()
    IGNORED = (ROOT / ".dockerignore").read_text().splitlines()

    def test_its_cli_is_that_of_the_locked_sdk(self) -> None:
        [version] = re.findall(r"pulumi-base:(\S+)", self.TEXT)
        assert f"\npulumi=={version} " in (ROOT / "requirements.txt").read_text()

    def test_it_has_all_that_the_program_is_made_of_and_nothing_of_a_stack(self) -> None:
        let_in = {line[1:] for line in self.IGNORED if line.startswith("!")}
        assert self.IGNORED[1] == "*"
        linted = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
        [contract] = (each for each in linted["contracts"] if each["id"] == "program")
        packages = set(contract["source_modules"])
        files = {"Pulumi.yaml", "requirements.txt", "__main__.py", "versions.py", "userdata"}
        assert let_in == packages | files

    def test_it_has_the_ssh_of_rotations_and_handovers(self) -> None:
        # Debian's slim images have none.
        assert re.search(r"apt-get install .*openssh-client", self.TEXT)

    def test_every_file_that_it_copies_exists(self) -> None:
        copied = re.findall(r"^COPY (?:--chown=\S+ )?(?!--from)(\S+) \S+$", self.TEXT, re.M)
        assert len(copied) == 4
        assert all((ROOT / each).exists() for each in copied)
        assert os.access(WRAPPER, os.X_OK)
