"""The SSH key of a machine is replaced, by whichever key it accepts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from commands import ssh
from commands.errors import CommandError
from tests.unit.programs import program

PROJECT = Path(__file__).resolve().parents[2]

# A machine that accepts a key if its number is in a line of authorized_keys, or of another file.
SSH = """\
#!/bin/bash
printf '%s\\n' "$*" >>"$FAKES/asked"
[[ ! -e $FAKES/down ]] || { echo "connect to host: timed out" >&2; exit 255; }
stat -c %a "$4" >>"$FAKES/modes"
key=$(<"$4")
cat "$HOME/.ssh/authorized_keys" "$FAKES/elsewhere" 2>/dev/null |
  grep -qF "body${key#private }" || {
  echo "Permission denied (publickey)." >&2
  exit 255
}
exec sh -s
"""
# Nothing of this machine's root is touched.
SUDO = """\
#!/bin/bash
[[ $* != */root/* ]] || exit 1
shift
exec "$@"
"""


def public(generation: int) -> str:
    return f"ssh-ed25519 body{generation}"


class Machine:
    """A machine's home folder, and an ssh that leads there."""

    def __init__(self, base: Path, accepted: Sequence[str]) -> None:
        self.fakes, self._home = base / "fakes", base / "home"
        for folder in (self._home, self._home / ".ssh"):
            folder.mkdir()
        for name, text in {"ssh": SSH, "sudo": SUDO}.items():
            program(self.fakes / name, text)
        self.file = self._home / ".ssh/authorized_keys"
        self.file.write_text("\n".join(accepted))

    def run(
        self, verb: str, listed: Sequence[int], *, newest: int = 2, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run the command as the engine does."""
        gateway = {"address": "203.0.113.5", "port": 22, "user": "debian", "host_key": "ecdsa A"}
        machine = {**gateway, "name": "demo-worker-0", "address": "10.8.0.32", "via": gateway}
        settings = {
            "MACHINE": json.dumps(machine),
            "KEYS": json.dumps([f"private {number}" for number in range(newest, 0, -1)]),
            "ACCEPT": json.dumps([public(number) for number in listed]),
            "RETIRE": json.dumps([public(number) for number in listed]),
        }
        line = (
            "import sys; from commands import ssh_key, ssh_login; "
            f"ssh_login.COMMAND_SECONDS = {seconds}; "
            "tried = (ssh_key.SshLogin.run.retry, ssh_key.SshLogin.accepts_an_older_key.retry); "
            "[setattr(each, 'wait', lambda state: 0) for each in tried]; "
            "[setattr(each, 'stop', lambda state: state.attempt_number == 2) for each in tried]; "
            f"sys.argv = ['ssh_key', {verb!r}]; ssh_key.main()"
        )
        return subprocess.run(
            [sys.executable, "-c", line],
            cwd=PROJECT,
            env={
                **os.environ,
                **settings,
                "HOME": str(self._home),
                "FAKES": str(self.fakes),
                "PATH": f"{self.fakes}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def accepted(self) -> list[str]:
        return self.file.read_text().splitlines()


@pytest.mark.parametrize("knows", [[1], [2], [1, 2], [3]])
def test_a_machine_is_reached_with_any_key_and_accepts_the_new_one(
    tmp_path: Path, knows: list[int]
) -> None:
    machine = Machine(tmp_path, ["ssh-rsa ada's", *map(public, knows)])
    done = machine.run("accept", [3, 2], newest=3)
    assert done.returncode == 0, done.stderr
    assert machine.accepted[0] == "ssh-rsa ada's"
    assert set(machine.accepted[1:]) == {public(number) for number in (*knows, 3, 2)}
    assert (machine.file.stat().st_mode & 0o777) == 0o600
    before = machine.file.stat().st_ino
    assert machine.run("accept", [3, 2], newest=3).returncode == 0
    assert machine.file.stat().st_ino == before
    assert set((machine.fakes / "modes").read_text().split()) == {"600"}
    assert "private" not in (machine.fakes / "asked").read_text()


def test_a_machine_without_ssh_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CommandError, match="no program `ssh` on the PATH: install OpenSSH"):
        ssh.run(["any"], seconds=1)


def test_two_texts_of_one_key_leave_nothing_to_retire(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [public(1)])
    done = machine.run("only", [], newest=1)
    assert done.returncode == 0, done.stderr
    assert machine.accepted == [public(1)]


def test_a_machine_keeps_the_new_key_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [public(1), "ssh-rsa ada's", public(3), f"{public(2)} comment"])
    for _ in range(2):
        done = machine.run("only", [1, 2], newest=3)
        assert done.returncode == 0, done.stderr
        assert machine.accepted == ["ssh-rsa ada's", public(3)]


def test_a_machine_keeps_the_old_key_if_it_does_not_know_the_new_one(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [public(1)])
    done = machine.run("only", [1])
    assert done.returncode == 1
    assert machine.accepted == [public(1)]


def test_an_old_key_that_sshd_takes_from_elsewhere_is_reported(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [public(1), public(2)])
    (machine.fakes / "elsewhere").write_text(public(1))
    done = machine.run("only", [1])
    assert done.returncode == 1
    assert "error: demo-worker-0 still accepts an old SSH key" in done.stderr


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        # A connection that is lost is no refusal.
        ("echo 'Connection closed by remote host' >&2; exit 255", "demo-worker-0 does not answer"),
        # A command that its owner has given it.
        ("exit 1", "demo-worker-0 still accepts an old SSH key"),
    ],
)
def test_only_a_refusal_proves_that_an_old_key_opens_nothing(
    tmp_path: Path, answer: str, error: str
) -> None:
    machine = Machine(tmp_path, [public(1), public(2)])
    old = f'[[ $(<"$4") != "private 1" ]] || {{ {answer}; }}\nkey=$(<"$4")'
    (machine.fakes / "ssh").write_text(SSH.replace('key=$(<"$4")', old))
    done = machine.run("only", [1])
    assert done.returncode == 1
    assert error in done.stderr


def test_what_does_not_answer_or_knows_no_key_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, ["ssh-rsa ada's"])
    done = machine.run("accept", [2, 1])
    assert "error: demo-worker-0 accepts none of the cluster's SSH keys" in done.stderr
    (machine.fakes / "down").touch()
    done = machine.run("accept", [2, 1])
    assert done.returncode == 1
    assert "error: demo-worker-0 does not answer: connect to host: timed out" in done.stderr


def test_a_machine_that_lets_ssh_in_and_answers_nothing_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [public(1)])
    (machine.fakes / "ssh").write_text("#!/bin/bash\nexec sleep 60\n")
    done = machine.run("accept", [2, 1], seconds=0.6)
    assert done.returncode == 1
    assert (
        "error: demo-worker-0 does not answer: it let ssh in, but did not answer within 1 s"
        in done.stderr
    )


def test_a_banner_in_another_encoding_does_no_harm(tmp_path: Path) -> None:
    machine = Machine(tmp_path, [public(1)])
    ssh = machine.fakes / "ssh"
    ssh.write_text(SSH.replace("#!/bin/bash\n", "#!/bin/bash\nprintf 'Zutritt f\\374r\\n' >&2\n"))
    done = machine.run("accept", [2, 1])
    assert done.returncode == 0, done.stderr
