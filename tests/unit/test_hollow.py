"""Hollow machines: they answer what the program and the gateways' scripts ask, and nothing else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bench.hollow.machine import UNKNOWN, Machine
from components.packing import environment_file, pack
from components.ssh import loader

T = TypeVar("T")
CONFIGURE = loader("worker/worker.sh configure", lock="hollow-0-configure", seconds=60)
SSH = (Path(__file__).parents[2] / "userdata/cluster/ssh.sh").read_text()
DRAIN = (Path(__file__).parents[2] / "userdata/cluster/drain.sh").read_text()
JOIN = """\
kind: JoinConfiguration
nodeRegistration:
  taints: [{key: example.org/only, value: a, effect: NoSchedule}]
  kubeletExtraArgs: [{name: provider-id, value: "existing://hollow-0"}]
"""


def files() -> bytes:
    """The folder of a worker, as the program packs it."""
    variables: dict[str, str | int | bool] = {
        "CLUSTER_NAME": "demo",
        "NODE_NAME": "hollow-0",
        "KUBERNETES_VERSION": "v1.36.3",
        "CONTROL_PLANE_ADDRESSES": "10.0.0.11 10.0.0.12",
        "API_PORT": 6443,
    }
    contents = {"node.env": environment_file(variables), "kubeadm-join.yaml": JOIN, "ca.crt": "CA"}
    return pack(contents).encode()


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine that no one has configured."""
    made = Machine("10.40.4.0")
    yield made
    finished(made.stop())


def finished(task: Coroutine[Any, Any, T]) -> T:
    """The result of a task, without `asyncio.run`, which would take Pulumi its loop."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(task)
    finally:
        loop.close()


def run(machine: Machine, command: str, given: bytes = b"") -> tuple[int, str]:
    return finished(machine.run(command, given))


def test_it_is_configured_by_the_program(machine: Machine) -> None:
    assert run(machine, "test -e /x/worker.sh || echo missing") == (0, "missing\n")
    assert run(machine, CONFIGURE, files()) == (0, "configured\n")
    assert run(machine, "test -e /x/worker.sh || echo missing") == (0, "")


def test_a_drain_asks_for_its_name(machine: Machine) -> None:
    [line] = re.findall(r'name=\$\(on_node "(.+)" </dev/null', DRAIN)
    command = line.replace("$CONF_DIR", "/etc/openstack-kubernetes").replace("\\$", "$")
    run(machine, CONFIGURE, files())
    assert run(machine, command) == (0, "demo/hollow-0\n")


def test_it_knows_its_cluster_from_its_files(machine: Machine) -> None:
    run(machine, CONFIGURE, files())
    who = machine.identity()
    assert (who.name, who.address, who.version) == ("hollow-0", "10.40.4.0", "v1.36.3")
    assert who.servers == ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]
    assert who.provider_id == "existing://hollow-0"
    assert [taint["key"] for taint in who.taints] == ["example.org/only"]


def test_a_gateway_asks_it_for_its_state(machine: Machine) -> None:
    assert 'sudo -n "$SCRIPTS_DIR/$ROLE/$ROLE.sh" "$@"' in SSH
    script = "sudo -n /opt/openstack-kubernetes/current/worker/worker.sh"
    assert run(machine, f"{script} state") == (0, "new\n")
    status, said = run(machine, f"{script} upgrade")
    assert (status, said) == (1, "ValueError: this machine is not in a cluster\n")
    assert run(machine, f"{script} reset") == (0, "reset\n")


def test_it_does_not_pretend_to_know_anything_else(machine: Machine) -> None:
    for command in ("sudo -n /x/worker/worker.sh authorities trust", "cat /etc/passwd"):
        assert run(machine, command)[0] == UNKNOWN
