"""`lab expose`: the machine reaches floating IPs while it is on. Needs root and a running cloud."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cloud import exposed, namespace
from lab.cloud.layout import CLOUD, CLOUDS_YAML
from lab.errors import LabError
from tests.lab import marks
from tests.lab.project import Project, Server
from tests.lab.traffic import reachable

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab runs as root"),
    *marks.SDK,
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server created from outside the lab, with the machine's own client."""
    if not namespace.running():
        pytest.skip("the cloud is down")
    exposed.turn_on()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OS_CLOUD", CLOUD)
        environment.setenv("OS_CLIENT_CONFIG_FILE", str(CLOUDS_YAML))
        project = Project(tmp_path_factory.mktemp("project"))
    try:
        yield project.server("exposed")
    finally:
        exposed.turn_on()
        project.clean()
        exposed.turn_off()


def answers(server: Server) -> bool:
    """True if its sshd greets; a proxy might accept connections to any address."""
    try:
        with socket.create_connection((server.address, 22), timeout=3) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def test_a_floating_ip_answers_this_machine_while_it_is_exposed(server: Server) -> None:
    assert answers(server)
    exposed.turn_off()
    assert not answers(server)
    # Twice, because it may be on already.
    exposed.turn_on()
    exposed.turn_on()
    assert answers(server)
    exposed.turn_off()
    exposed.turn_off()
    assert not answers(server)


def test_a_server_cannot_call_this_machine(server: Server) -> None:
    exposed.turn_on()
    call = "timeout 3 bash -c '</dev/tcp/{}/{}'"
    # The call would work; and unlike `fails`, `ssh` raises when the server itself is not reached.
    server.ssh(call.format("127.0.0.1", 22))
    with socket.create_server((exposed.HOST_ADDRESS, 0)) as listening:
        assert reachable(*listening.getsockname())
        server.ssh(f"! {call.format(*listening.getsockname())}")


def test_turning_it_off_leaves_nothing_behind(server: Server) -> None:
    exposed.turn_on()
    exposed.turn_off()
    assert not Path("/sys/class/net", exposed.OUTER).exists()
    assert not exposed.is_on()
    pid = namespace.running()
    assert exposed.INNER not in Path(f"/proc/{pid}/net/dev").read_text()


def test_a_machine_with_another_route_to_these_addresses_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(namespace, "running", lambda: 1)
    monkeypatch.setattr(exposed, "turn_off", lambda: None)
    monkeypatch.setattr(
        exposed, "_host", lambda *_, **__: "default via 10.0.0.1\n172.24.0.0/16 dev docker0\n"
    )
    with pytest.raises(LabError, match=r"172\.24\.0\.0/16 dev docker0"):
        exposed.turn_on()


def test_without_a_lab_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "running", lambda: 0)
    with pytest.raises(LabError, match="cloud up"):
        exposed.turn_on()
