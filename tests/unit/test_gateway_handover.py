"""A gateway that goes: the floating IP moves first, and a dead gateway delays nothing for long."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.programs import program

PROJECT = Path(__file__).resolve().parents[2]

# Runs the command here; the file `active` holds the id of the server that has the floating IP.
SSH = """#!/bin/bash
printf '%s\\n' "$@" >>"$FAKES/asked"
[[ -e $FAKES/active ]] || { echo "connect to host: timed out" >&2; exit 255; }
while [[ $1 != -i ]]; do shift; done
stat -c %a "$2" >>"$FAKES/modes"
sh -c "${!#}"
"""
CAT = """#!/bin/bash
[[ $1 == /var/lib/cloud/data/instance-id ]] && exec /bin/cat "$FAKES/active"
"""
# Stopping keepalived moves the address, if another gateway takes it.
SUDO = """#!/bin/bash
echo "$*" >>"$FAKES/stopped"
mv "$FAKES/next" "$FAKES/active" 2>/dev/null
"""


class Gateways:
    """The gateways behind the floating IP."""

    def __init__(self, fakes: Path) -> None:
        self.fakes = fakes
        for name, text in {"ssh": SSH, "cat": CAT, "sudo": SUDO}.items():
            program(fakes / name, text)

    def hand_over(
        self,
        *,
        active: str = "",
        following: str = "",
        answer: float = 10,
        temporary: str | None = None,
        **settings: str,
    ) -> str:
        """Hand over for the server `old`; returns what was printed."""
        for name, server in {"active": active, "next": following}.items():
            if server:
                (self.fakes / name).write_text(f"{server}\n")
        environment = {
            "FAKES": str(self.fakes),
            "PATH": f"{self.fakes}:{os.environ['PATH']}",
            "GATEWAY": "demo-gateway-0",
            "SERVER_ID": "old",
            "OTHERS": "1",
            "ADDRESS": "198.51.100.7",
            "SSH_USER": "debian",
            "SSH_KEY": "the key",
            "HOST_KEY": "ecdsa-sha2-nistp256 AAAA",
            **settings,
        }
        line = (
            f"import tempfile; tempfile.tempdir = {temporary!r}; "
            f"from commands import gateway_handover; gateway_handover.ANSWER_SECONDS = {answer}; "
            "gateway_handover.PATIENCE = 0.5; gateway_handover.main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", line], cwd=PROJECT, env=environment,
            capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
        return done.stdout

    def lines(self, name: str) -> list[str]:
        file = self.fakes / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def gateways(tmp_path: Path) -> Gateways:
    return Gateways(tmp_path)


def test_the_active_gateway_hands_over_before_it_goes(gateways: Gateways) -> None:
    assert gateways.hand_over(active="old", following="other") == (
        "demo-gateway-0 gave the floating IP to another gateway\n"
    )
    stopped, started = gateways.lines("stopped")
    assert stopped.endswith("systemctl stop keepalived.service")
    # A server that is not deleted after all must not stay without it.
    assert started.endswith("--on-active=60s systemctl start keepalived.service")
    # Without the delay the answer was lost on the lab: the address had moved.
    assert "--on-active=300ms" in stopped


def test_a_passive_gateway_just_goes(gateways: Gateways) -> None:
    assert gateways.hand_over(active="other") == ""
    assert not gateways.lines("stopped")


def test_the_only_gateway_just_goes(gateways: Gateways) -> None:
    assert "the only gateway" in gateways.hand_over(active="old", OTHERS="0")
    assert not gateways.lines("asked")


def test_a_gateway_goes_even_if_no_other_takes_over(gateways: Gateways) -> None:
    assert "no other gateway took the floating IP of demo-gateway-0" in gateways.hand_over(
        active="old"
    )


def test_the_update_continues_when_no_gateway_answers(gateways: Gateways) -> None:
    began = time.monotonic()
    assert "connect to host: timed out" in gateways.hand_over()
    assert time.monotonic() - began < 10


def test_the_update_continues_when_a_gateway_lets_ssh_in_and_answers_nothing(
    gateways: Gateways,
) -> None:
    """Its disk hangs; keepalived and HAProxy run from memory."""
    (gateways.fakes / "ssh").write_text("#!/bin/bash\nexec sleep 60\n")
    began = time.monotonic()
    assert "it let ssh in, but did not answer within 1 s" in gateways.hand_over(
        active="old", answer=0.6
    )
    assert time.monotonic() - began < 20


def test_the_update_continues_without_ssh(gateways: Gateways) -> None:
    assert "could not hand over" in gateways.hand_over(
        active="old", PATH=str(gateways.fakes / "none")
    )


def test_the_update_continues_without_room_for_the_ssh_key(gateways: Gateways) -> None:
    said = gateways.hand_over(active="old", temporary=str(gateways.fakes / "none"))
    assert "demo-gateway-0 could not hand over" in said


def test_the_update_continues_whatever_ssh_says(gateways: Gateways) -> None:
    ssh = gateways.fakes / "ssh"
    ssh.write_text("#!/bin/bash\nprintf 'Zutritt f\\374r\\n' >&2; exit 255\n")
    assert "no other gateway took" in gateways.hand_over(active="old")


def test_the_host_key_is_checked_and_no_one_else_can_read_the_ssh_key(gateways: Gateways) -> None:
    gateways.hand_over(active="other")
    asked = gateways.lines("asked")
    for option in ("StrictHostKeyChecking=yes", "HostKeyAlgorithms=ecdsa-sha2-nistp256"):
        assert option in asked
    assert "the key" not in "\n".join(asked)
    assert gateways.lines("modes") == ["600"]
    key = Path(asked[asked.index("-i") + 1])
    assert not key.exists()
