"""The active gateway with the folder of a node's membership, for join.sh and drain.sh."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.scripts.conftest import COMMON, Machine

PATCH = '{{"metadata":{{"annotations":{{"openstack-kubernetes-cordoned":{}}}}},"spec":{}}}'
CORDON = PATCH.format('"true"', '{"unschedulable":true}')
UNCORDON = PATCH.format("null", '{"unschedulable":null}')
PODS = (
    "etcd-a demo-control-plane-0 True\n"
    "etcd-b demo-control-plane-1 True\n"
    "etcd-c demo-control-plane-2 True\n"
)

MakeMachine = Callable[[Mapping[str, str]], Machine]


def node(name: str, ready: str = "True", message: str = "fine", **fields: str) -> str:
    """The line that kubectl prints of a Node."""
    parts = (name, fields.get("cordoned", ""), fields.get("marked", ""),
             fields.get("provider", ""), fields.get("address", "10.8.0.41"),
             fields.get("version", COMMON["KUBERNETES_VERSION"]),
             fields.get("pool", ""), fields.get("limit", ""), ready, message)  # fmt: skip
    return "|".join(parts)


def etcd_member(last: int, name: str) -> str:
    address = f"https://10.8.0.{last}"
    return f"{last}, started, {name}, {address}:2380, {address}:2379, false\n"


def healthy(*lasts: int) -> str:
    return "".join(f"https://10.8.0.{last}:2379 is healthy: successfully\n" for last in lasts)


LOCK = "weave.works/kured-node-lock"


def kured(machine: Machine, holder: str = "", *, hours: int = 0, times: int = 0) -> None:
    """Install kured, whose lock has this holder, for so many hours from now."""
    lock = {
        "nodeID": holder,
        "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "TTL": hours * 3600 * 10**9,
    }
    text = json.dumps(lock, separators=(",", ":")) if holder else ""
    machine.answer("get daemonset kured", f"41|{text}", times=times)
    machine.answer("get node demo-control-plane-0", "node/demo-control-plane-0")


def answer_nodes(machine: Machine, *texts: str, times: int = 0) -> None:
    """Let kubectl print these lines of all Nodes."""
    machine.answer("get nodes -o", "".join(f"{text}\n" for text in texts), times=times)


def worker(make_machine: MakeMachine, **values: str) -> Machine:
    """For the first of two workers; the cluster answers, and the worker's machine too."""
    made = make_machine(
        {
            **COMMON,
            "ROLE": "worker",
            "NODE_NAME": "demo-worker-0",
            "NODE_IP": "10.8.0.41",
            "SSH_USER": "debian",
            **values,
        }
    )
    made.write("kubeconfig", "")
    made.write("ssh_key", "key\n")
    made.write("known_hosts", "10.8.0.41 ecdsa-sha2-nistp256 AAAA\n")
    made.answer("config view --raw", "Q0E=")
    answer_nodes(made, node("demo-worker-0"), node("demo-worker-1"))
    made.answer("get node demo-worker-0", node("demo-worker-0"))
    made.answer("^ssh .*worker.sh state", "joined\n")
    made.environment.update(
        READY_TIMEOUT="1", DETACH_TIMEOUT="1", OTHERS_TIMEOUT="1", HEARD_TIMEOUT="1"
    )
    return made


def control_plane(make_machine: MakeMachine, **values: str) -> Machine:
    """For demo-control-plane-2, the third of three."""
    names = [f"demo-control-plane-{index}" for index in range(3)]
    made = worker(
        make_machine, ROLE="control-plane", NODE_NAME=names[2], NODE_IP="10.8.0.23", **values
    )
    answer_nodes(made, *(node(name) for name in names))
    made.answer(f"get node {names[2]}", node(names[2]))
    made.answer("get pods -l component=etcd", PODS)
    made.answer(
        "member list",
        "".join(etcd_member(last, name) for last, name in zip((21, 22, 23), names, strict=True)),
    )
    made.answer("endpoint health", healthy(21, 22, 23))
    return made


@pytest.fixture
def make(make_machine: MakeMachine) -> Callable[..., Machine]:
    """The active gateway with the folder of a worker's membership."""
    return partial(worker, make_machine)


@pytest.fixture
def make_control_plane(make_machine: MakeMachine) -> Callable[..., Machine]:
    """The active gateway with the folder of a control plane's membership."""
    return partial(control_plane, make_machine)
