"""The SSH host key of a server is replaced, whichever of the generations it shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.programs import program

PROJECT = Path(__file__).resolve().parents[2]

# A server that shows the keys in the file `shown`, to whoever knows one of them. A key of another
# type is no negotiation, one of the same type is another identity.
SSH = """\
#!/bin/bash
printf '%s\\n' "$*" >>"$FAKES/asked"
[[ ! -e $FAKES/down ]] || { echo "connect to host: timed out" >&2; exit 255; }
known=$(sed -n 's/^machine //p' "${2%/*}/known_hosts")
grep -qxF "$known" "$FAKES/shown" || {
  if cut -d' ' -f1 <<<"$known" | grep -qF -f - "$FAKES/shown"; then
    echo "Host key verification failed." >&2
  else
    echo "Unable to negotiate: no matching host key type found. Their offer: x" >&2
  fi
  exit 255
}
exec bash -c "${!#}"
"""


def public(generation: int) -> str:
    return f"ecdsa-sha2-nistp{256 if generation % 2 else 384} key{generation}"


class Server:
    """A server by the host keys that it shows, and an ssh that leads there."""

    def __init__(self, base: Path, shown: Sequence[int]) -> None:
        self.fakes = base
        program(base / "ssh", SSH)
        self.shows(shown)

    def shows(self, generations: Sequence[int]) -> None:
        (self.fakes / "shown").write_text("".join(f"{public(each)}\n" for each in generations))

    @property
    def shown(self) -> list[str]:
        return (self.fakes / "shown").read_text().splitlines()

    def run(
        self, verb: str, newest: int, older: Sequence[int], *, sends: Sequence[int]
    ) -> subprocess.CompletedProcess[str]:
        """Run the command as the engine does; the server then shows what the folder `sends`."""
        gateway = {"address": "203.0.113.5", "port": 22, "user": "debian", "host_key": "ecdsa A\n"}
        machine = {**gateway, "name": "demo-worker-0", "host_key": f"{public(newest)}\n"}
        settings = {
            "MACHINE": json.dumps({**machine, "via": gateway}),
            "KEYS": json.dumps(["private"]),
            "OLDER": json.dumps([f"{public(each)}\n" for each in older]),
            "COMMAND": 'cat >"$FAKES/shown"',
            "FOLDER": "".join(f"{public(each)}\n" for each in sends),
        }
        line = (
            "import sys; from commands import host_key; "
            "host_key.SshLogin.run.retry.wait = lambda state: 0; "
            "host_key.SshLogin.run.retry.stop = lambda state: state.attempt_number == 2; "
            f"sys.argv = ['host_key', {verb!r}]; host_key.main()"
        )
        return subprocess.run(
            [sys.executable, "-c", line],
            cwd=PROJECT,
            env={
                **os.environ,
                **settings,
                "FAKES": str(self.fakes),
                "PATH": f"{self.fakes}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.mark.parametrize("shown", [[1], [1, 2], [2]])
def test_a_server_is_verified_by_either_key_and_shows_the_new_one(
    tmp_path: Path, shown: list[int]
) -> None:
    server = Server(tmp_path, shown)
    done = server.run("show", 2, [1], sends=[2, 1])
    assert done.returncode == 0, done.stderr
    assert server.shown == [public(2), public(1)]
    assert "key2" not in (tmp_path / "asked").read_text()


def test_a_server_that_shows_no_key_of_the_cluster_is_sent_nothing(tmp_path: Path) -> None:
    for stranger in (3, 4):
        server = Server(tmp_path, [stranger])
        done = server.run("show", 2, [1], sends=[2, 1])
        assert done.returncode == 1
        assert "error: demo-worker-0 or its gateway shows no host key of this" in done.stderr
        assert server.shown == [public(stranger)]


def test_an_old_key_is_not_enough_when_the_rotation_is_done(tmp_path: Path) -> None:
    server = Server(tmp_path, [1])
    assert server.run("show", 2, [], sends=[2]).returncode == 1
    assert server.shown == [public(1)]


def test_a_server_that_does_not_list_its_new_key_is_reported(tmp_path: Path) -> None:
    server = Server(tmp_path, [1])
    done = server.run("show", 2, [1], sends=[1])
    assert done.returncode == 1
    assert "error: demo-worker-0 does not show its new SSH host key" in done.stderr
    assert "sshd_config.d" in done.stderr


def test_a_server_shows_the_newest_key_only(tmp_path: Path) -> None:
    server = Server(tmp_path, [2, 3])
    for _ in range(2):
        done = server.run("only", 3, [1, 2], sends=[3])
        assert done.returncode == 0, done.stderr
        assert server.shown == [public(3)]


def test_a_server_is_left_alone_while_its_old_key_is_needed(tmp_path: Path) -> None:
    server = Server(tmp_path, [1, 2])
    done = server.run("only", 2, [], sends=[2])
    assert done.returncode == 0, done.stderr
    assert server.shown == [public(1), public(2)]


def test_a_server_that_shows_an_old_key_nevertheless_is_reported(tmp_path: Path) -> None:
    server = Server(tmp_path, [1, 2])
    done = server.run("only", 2, [1], sends=[2, 1])
    assert done.returncode == 1
    assert "error: demo-worker-0 still shows an old SSH host key" in done.stderr


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    server = Server(tmp_path, [1])
    (tmp_path / "down").touch()
    for verb in ("show", "only"):
        done = server.run(verb, 2, [1], sends=[2, 1])
        assert done.returncode == 1
        assert "error: demo-worker-0 does not answer: connect to host: timed out" in done.stderr
