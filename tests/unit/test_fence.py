"""A dead node's server is stopped before its pods and volumes go anywhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack.exceptions import ConflictException, NotFoundException

from commands import fence
from tests.unit.http_servers import Silent, kubeconfig, kubernetes_api

NODE = "demo-worker-0"
TAINT = {"key": fence.OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def pod(name: str, kind: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "ownerReferences": [{"kind": kind}]}}


def attachment(volume: str, node: str) -> dict[str, Any]:
    source = {"persistentVolumeName": volume}
    return {"metadata": {"name": f"csi-{volume}"}, "spec": {"nodeName": node, "source": source}}


class Api(Silent):
    """Answers as the API server does; `log` has what it was asked to change, and Nova as well."""

    node: ClassVar[dict[str, Any] | None] = None
    log: ClassVar[list[str]] = []
    # Pods and attachments stay for so many requests after the taint.
    lists: ClassVar[int] = 0
    # The Node of another machine, which takes the name while they leave.
    successor: ClassVar[dict[str, Any] | None] = None

    def _answer(self, status: int, body: object = None) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body or {}).encode())

    def do_GET(self) -> None:  # noqa: N802
        path = self.path.partition("?")[0]
        if path == f"/api/v1/nodes/{NODE}":
            self._answer(404 if Api.node is None else 200, Api.node)
        elif path == "/api/v1/pods":
            stays = [pod("cilium-x", "DaemonSet"), pod("proxy", "Node")]
            Api.lists -= 1
            moving = [pod("db-0", "StatefulSet")] if Api.lists >= 0 else []
            Api.node, Api.successor = Api.successor or Api.node, None
            self._answer(200, {"items": [*stays, *moving]})
        else:
            moving = [attachment("pv-1", NODE)] if Api.lists >= 0 else []
            self._answer(200, {"items": [attachment("pv-2", "demo-worker-1"), *moving]})

    def do_PATCH(self) -> None:  # noqa: N802
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert Api.node is not None
        assert change["metadata"]["resourceVersion"] == Api.node["metadata"]["resourceVersion"]
        Api.node["spec"] |= change["spec"]
        Api.log.append("taint")
        self._answer(200, Api.node)

    def do_DELETE(self) -> None:  # noqa: N802
        options = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        assert Api.node is not None
        uid = Api.node["metadata"]["uid"]
        if options.get("preconditions", {}).get("uid", uid) != uid:
            self._answer(409)
            return
        Api.log.append("delete the Node")
        Api.node = None
        self._answer(200)


class Nova:
    """A cloud with one server, which is off a moment after it was told to stop."""

    def __init__(self, status: str = "ACTIVE", *, stops: bool = True) -> None:
        self.compute = self
        self.status = status
        self._stops = stops

    def get_server(self, server: str) -> Thing:
        if self.status == "DELETED":
            raise NotFoundException(server)
        shown = Thing(status=self.status)
        if "stop" in Api.log and self._stops:
            self.status = "SHUTOFF"
        return shown

    def stop_server(self, server: str) -> None:
        assert server == "the-server"
        if self.status != "ACTIVE":
            raise ConflictException(f"cannot stop while it is {self.status}")
        Api.log.append("stop")

    def delete_server(self, server: str) -> None:
        assert server == "the-server"
        Api.log.append("delete the server")
        self.status = "DELETED"


@pytest.fixture
def api(pem: Path) -> Iterator[str]:
    with kubernetes_api(Api, pem) as url:
        yield url


@pytest.fixture
def run(pem: Path, api: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Nova], int]:
    """Run the command for the node, on this cloud."""

    def run(nova: Nova, server: str = api) -> int:
        monkeypatch.setenv("KUBECONFIG_TEXT", kubeconfig(server, pem))
        monkeypatch.setattr(fence, "connect_from_environment", lambda: nova)
        return fence.main()

    monkeypatch.setenv("NODE", NODE)
    monkeypatch.setenv("PROVIDER_ID", "openstack:///the-server")
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    monkeypatch.setattr(fence, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(fence.DeadNode.taints.retry, "stop", lambda _: True)
    Api.log, Api.lists, Api.node, Api.successor = [], 0, None, None
    return run


def dead(*taints: dict[str, str], provider: str = "openstack:///the-server") -> None:
    """Let the cluster have a Node with these taints."""
    Api.node = {
        "metadata": {"name": NODE, "resourceVersion": "7", "uid": "dead"},
        "spec": {"providerID": provider, "taints": [UNREACHABLE, *taints]},
    }


def test_the_server_is_off_before_pods_and_volumes_move(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    dead()
    Api.lists = 2
    seen: list[list[dict[str, str]]] = []
    nova = Nova()
    stopped = nova.get_server

    def watched(server: str) -> Thing:
        assert Api.node is not None
        seen.append(list(Api.node["spec"]["taints"]))
        return stopped(server)

    nova.get_server = watched  # type: ignore[method-assign]
    assert run(nova) == 0
    assert Api.log == ["stop", "taint", "delete the Node"]
    assert nova.status == "SHUTOFF"
    # While it could still run, nothing was said to the cluster.
    assert all(TAINT not in taints for taints in seen)
    # The Node stayed until they had left it.
    assert Api.lists < 0
    assert "still recorded" not in capsys.readouterr().out


@pytest.mark.parametrize("status", ["SHUTOFF", "DELETED", "SHELVED_OFFLOADED"])
def test_a_server_that_does_not_run_is_not_stopped(run: Callable[..., int], status: str) -> None:
    dead()
    assert run(Nova(status)) == 0
    assert Api.log == ["taint", "delete the Node"]


@pytest.mark.parametrize("status", ["ACTIVE", "PAUSED", "ERROR"])
def test_while_the_server_may_run_its_pods_stay(
    run: Callable[..., int], status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dead()
    assert run(Nova(status, stops=False)) == 1
    assert "taint" not in Api.log
    assert "delete the Node" not in Api.log
    said = capsys.readouterr().err
    assert f"Nova does not stop its server the-server, which is {status}" in said
    assert f"kubectl taint node {NODE} {fence.OUT_OF_SERVICE}=nodeshutdown:NoExecute" in said


def test_while_nova_does_not_answer_its_pods_stay(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    dead()
    nova = MagicMock()
    nova.compute.get_server.side_effect = ConnectFailure("no route")
    assert run(nova) == 1
    assert Api.log == []
    assert "may still run, so its pods stay: no route." in capsys.readouterr().err


def test_the_word_of_a_person_is_enough(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead(TAINT)
    nova = Nova(stops=False)
    delete = nova.delete_server

    # Nova frees the volumes of a server without its hypervisor only when it deletes the server.
    def freed_later(server: str) -> None:
        delete(server)
        Api.lists = 2

    monkeypatch.setattr(nova, "delete_server", freed_later)
    assert run(nova) == 0
    assert Api.log == ["taint", "delete the server", "delete the Node"]
    assert Api.lists < 0
    assert "still recorded" not in capsys.readouterr().out


def test_a_server_that_is_off_and_that_nova_does_not_delete_is_named(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = Nova(stops=False)

    def refuse(_: str) -> None:
        raise ConflictException("Instance is locked")

    monkeypatch.setattr(locked, "delete_server", refuse)
    dead(TAINT)
    assert run(locked) == 1
    said = capsys.readouterr().err
    assert "Nova does not delete its server the-server: Instance is locked" in said
    assert "kubectl taint" not in said


def test_a_node_that_was_drained_keeps_its_server_running(run: Callable[..., int]) -> None:
    assert run(Nova()) == 0
    dead(provider="openstack:///the-next-one")
    assert run(Nova()) == 0
    assert Api.log == []


def test_the_node_of_a_machine_that_joins_meanwhile_stays(run: Callable[..., int]) -> None:
    dead()
    Api.lists = 2
    # It has just registered: the cloud controller manager has not set its provider ID yet.
    Api.successor = {"metadata": {"name": NODE, "resourceVersion": "9", "uid": "new"}, "spec": {}}
    joined = Api.successor
    assert run(Nova("DELETED")) == 0
    assert Api.log == ["taint"]
    assert Api.node == joined


def test_without_an_answer_of_the_api_the_server_is_stopped(run: Callable[..., int]) -> None:
    assert run(Nova(), server="https://127.0.0.1:1") == 0
    assert Api.log == ["stop"]
    assert run(Nova("PAUSED", stops=False), server="https://127.0.0.1:1") == 1


def test_what_does_not_leave_a_node_that_is_off_delays_its_end_only(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead()
    Api.lists = 10**6
    monkeypatch.setattr(fence, "LEAVE_SECONDS", 0.2)
    assert run(Nova()) == 0
    assert Api.log[-1] == "delete the Node"
    assert (
        f"still recorded on {NODE}, whose server does not run: db-0, pv-1"
        in capsys.readouterr().out
    )
