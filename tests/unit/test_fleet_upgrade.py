"""Waves of upgrades: what is previewed, begun, stopped and continued."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from commands.fleet import health, operated
from commands.fleet.__main__ import main
from tests.unit.fleet import (
    ANSWERS,
    APPS,
    NODES,
    STATIC_PODS,
    VERSION,
    Fleet,
    listed,
    node,
    pending,
    resources,
    workload,
)
from tests.unit.kubernetes_objects import Objects

NEW = "v1.36.4"
# What an update changes: the state, and the cluster.
UP = f"sed -i s/{VERSION}/{NEW}/g {{folder}}/stack-output-{{name}} {{folder}}/{{name}}.api"


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE", 0)


def add(fleet: Fleet, name: str, answers: Mapping[str, object] = ANSWERS) -> None:
    """Add a cluster that can be upgraded."""
    fleet.cluster(name, answers)
    Path(f"Pulumi.{name}.yaml").write_text(f"config:\n  p:kubernetesVersion: {VERSION}\n")
    fleet.write(f"preview---json-{name}", {"changeSummary": {"same": 90, "update": 4}})
    fleet.program(f"up---yes-{name}", f"#!/bin/sh\n{UP.format(folder=fleet.folder, name=name)}\n")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    line = ["fleet", "upgrade", "--to", NEW, "--yes", *arguments]
    monkeypatch.setattr(sys, "argv", line)
    return main()


def updated(fleet: Fleet) -> list[str]:
    """The stacks that were updated, in order."""
    return [line.split()[-1] for line in fleet.called("up --yes")]


def configured(name: str) -> str:
    return Path(f"Pulumi.{name}.yaml").read_text().split()[-1]


def test_all_are_previewed_before_the_first_is_updated(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        add(fleet, name)
    fleet.empty("empty")
    assert run(monkeypatch, "--wave", "2") == 0
    words = [line.split()[0] for line in fleet.calls if line.split()[0] in ("preview", "up")]
    assert words == ["preview"] * 3 + ["up"] * 3
    assert (sorted(updated(fleet)[:2]), updated(fleet)[2:]) == (["a", "b"], ["c"])
    assert {configured(name) for name in "abc"} == {NEW}
    out = capsys.readouterr().out.splitlines()
    assert out[:4] == [
        "left alone: empty has no cluster",
        "a: update 4",
        "b: update 4",
        "c: update 4",
    ]
    assert out[-1] == f"c: healthy at {NEW}"


def test_those_of_a_wave_are_updated_at_the_same_time(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, other in ("ab", "ba"):
        add(fleet, name)
        up = fleet.folder / f"up---yes-{name}"
        met = f"[ -e {fleet.folder}/begun-{other} ]"
        up.write_text(
            f"#!/bin/sh\ntouch {fleet.folder}/begun-{name}\n"
            f"for i in $(seq 100); do ! {met} || break; sleep 0.1; done\n"
            f"{met} || exit 1\n{up.read_text()}"
        )
    assert run(monkeypatch, "--wave", "2") == 0


def test_a_preview_that_fails_stops_before_anything_changes(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        add(fleet, name)
    message = "error: kubernetesVersion = v1.36.4: a minor version cannot be skipped\n"
    told = {"diagnostics": [{"severity": "error", "message": message}]}
    # It is previewed with the new version, which its configuration does not have yet.
    answer = f"#!/bin/sh\ngrep -q {NEW} $1 || exit 9\ncat {fleet.write('told', told)}\nexit 1\n"
    fleet.program("preview---json-b", answer)
    assert run(monkeypatch) == 1
    err = capsys.readouterr().err.splitlines()
    assert err == [
        "b: kubernetesVersion = v1.36.4: a minor version cannot be skipped",
        "nothing was changed",
    ]
    assert updated(fleet) == []
    assert {configured(name) for name in "ab"} == {VERSION}


def test_an_answer_other_than_yes_changes_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(fleet, "a")
    monkeypatch.setattr(sys, "argv", ["fleet", "upgrade", "--to", NEW])
    for answer in ("n", ""):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert main() == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert updated(fleet) == []
    assert configured("a") == VERSION


def test_the_first_that_is_not_healthy_stops_the_waves_and_the_next_run_continues(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        add(fleet, name)
    broken = {f"{APPS}/deployments": listed(workload("kube-system", "coredns", 1))}
    answers = json.loads((fleet.folder / "b.api").read_text())
    fleet.write("b.api", answers | broken)
    assert run(monkeypatch) == 1
    out, err = capsys.readouterr()
    assert "b: not healthy: deployment kube-system/coredns: 1 of its pods are not Ready" in out
    assert err.startswith("stopped at b; not begun: c. When it is repaired, run the same command")
    assert updated(fleet) == ["a", "b"]
    assert configured("c") == VERSION
    # It is repaired: nothing is left to do but the others.
    fleet.write("b.api", json.loads(json.dumps(answers).replace(VERSION, NEW)))
    assert run(monkeypatch) == 0
    assert updated(fleet) == ["a", "b", "c"]
    out = capsys.readouterr().out
    assert f"left alone: a is healthy at {NEW}\nleft alone: b is healthy at {NEW}\n" in out


def test_an_update_that_fails_stops_the_waves_and_is_repeated(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        add(fleet, name)
    works = (fleet.folder / "up---yes-a").read_text()
    # The last step of the update fails: what can be seen of the cluster is fine.
    history = json.loads((fleet.folder / "stack-history-a").read_text())
    fleet.write("failed", [history[0] | {"result": "failed"}])
    told = f"cp {fleet.folder}/failed {fleet.folder}/stack-history-a\necho why\nexit 1\n"
    fleet.program("up---yes-a", works + told)
    assert run(monkeypatch) == 1
    assert "a: `pulumi up` failed: a-upgrade.log says why" in capsys.readouterr().out
    assert Path("a-upgrade.log").read_text() == "why\n"
    assert updated(fleet) == ["a"]
    fleet.program("up---yes-a", works)
    assert run(monkeypatch) == 0
    assert updated(fleet) == ["a", "a", "b"]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_stack_that_cannot_be_updated_now_stops_before_anything_changes(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sealed: bool,
) -> None:
    add(fleet, "a")
    if sealed:
        fleet.sealed("b")
    else:
        add(fleet, "b")
        state = {"resources": resources("b"), "pending_operations": [pending("updating", "x")]}
        fleet.write("stack-export-b", {"deployment": state})
    assert run(monkeypatch) == 1
    err = capsys.readouterr().err
    assert ("incorrect passphrase" if sealed else "b: an update is at work on it") in err
    assert "nothing was changed" in err
    assert not fleet.called("preview")
    # The others can be named.
    assert run(monkeypatch, "a") == 0
    assert updated(fleet) == ["a"]


def test_without_a_configuration_file_here_none_is_made(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(fleet, "a")
    Path("Pulumi.a.yaml").unlink()
    assert run(monkeypatch) == 1
    assert "a: Pulumi.a.yaml is missing: run this where you run" in capsys.readouterr().err
    assert not Path("Pulumi.a.yaml").exists()


def test_a_check_of_the_users_own_decides_with_the_clusters_kubeconfig(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        add(fleet, name)
    fleet.program("smoke", f'#!/bin/sh\ncat "$KUBECONFIG" >>{fleet.folder}/used\n[ $1 = fine ]\n')
    assert run(monkeypatch, "--check", "smoke fine", "a") == 0
    used = (fleet.folder / "used").read_text()
    assert used == json.loads((fleet.folder / "stack-output-a").read_text())["kubeconfig"]
    assert run(monkeypatch, "--check", "smoke bad", "b") == 1
    assert "b: `smoke bad` failed: b-upgrade.log says why" in capsys.readouterr().out


def test_a_check_that_has_failed_must_pass_before_the_next_run_continues(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        add(fleet, name)
    fleet.program("smoke", f"#!/bin/sh\n[ -e {fleet.folder}/mended ]\n")
    fleet.empty("empty")
    assert run(monkeypatch, "--check", "smoke") == 1
    assert run(monkeypatch, "--check", "smoke") == 1
    assert updated(fleet) == ["a"]
    said = f"a is healthy at {NEW}, but `smoke` failed: a-upgrade.log says why; nothing was changed"
    assert said in capsys.readouterr().err
    (fleet.folder / "mended").touch()
    assert run(monkeypatch, "--check", "smoke") == 0
    assert updated(fleet) == ["a", "b"]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("smok fine", "argument --check: there is no program 'smok' on this machine"),
        ("./missing.sh", "argument --check: there is no program './missing.sh' on this machine"),
        ("smoke 'fine", "argument --check: smoke 'fine: No closing quotation; quote it as in a"),
        ("", "argument --check: there is no program '' on this machine"),
    ],
)
def test_a_check_that_cannot_be_run_is_refused_before_anything_changes(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check: str,
    message: str,
) -> None:
    add(fleet, "a")
    fleet.program("smoke", "#!/bin/sh\n")
    with pytest.raises(SystemExit):
        run(monkeypatch, "--check", check)
    assert message in capsys.readouterr().err
    assert not (fleet.folder / "calls").exists()
    assert configured("a") == VERSION


def test_a_check_that_the_system_cannot_start_has_failed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(fleet, "a")
    fleet.program("smoke", "#!/missing/sh\n")
    assert run(monkeypatch, "--check", "smoke") == 1
    assert "a: `smoke` failed: a-upgrade.log says why" in capsys.readouterr().out
    assert "No such file or directory" in Path("a-upgrade.log").read_text()


@pytest.mark.parametrize(
    ("path", "answer", "fault"),
    [
        ("/readyz", None, "its API answers 404 Not Found to /readyz"),
        (NODES, listed(node("demo-worker-0")), "the node metal-0 is missing"),
        (
            NODES,
            listed(node("demo-worker-0", "False"), node("metal-0")),
            "the node demo-worker-0 is not Ready",
        ),
        (STATIC_PODS, listed(node("etcd-0", "False")), "the pod etcd-0 is not Ready"),
        (
            f"{APPS}/daemonsets",
            listed(workload("ingress", "traefik", 0), workload("shop", "cart", 0)),
            "daemonset ingress/traefik: 2 of its pods are not Ready",
        ),
        (
            f"{APPS}/deployments",
            listed(workload("kube-system", "coredns", 0)),
            "deployment kube-system/coredns: 2 of its pods are not Ready",
        ),
    ],
)
def test_a_cluster_at_the_version_is_not_done_until_it_is_healthy(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    path: str,
    answer: object,
    fault: str,
) -> None:
    add(fleet, "a", {path: answer})
    fleet.program("up---yes-a", "#!/bin/sh\n")
    monkeypatch.setattr(sys, "argv", ["fleet", "upgrade", "--to", VERSION, "--yes"])
    assert main() == 1
    assert updated(fleet) == ["a"]
    # And nothing else: users' own pods are left alone.
    assert capsys.readouterr().out.splitlines()[-1] == f"a: not healthy: {fault}"


def test_a_node_at_another_version_is_a_fault(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(fleet, "a")
    # An update that reaches the state, but no node.
    fleet.program(
        "up---yes-a", f"#!/bin/sh\nsed -i s/{VERSION}/{NEW}/g {fleet.folder}/stack-output-a\n"
    )
    assert run(monkeypatch) == 1
    said = f"the node demo-worker-0 runs {VERSION}; the node metal-0 runs {VERSION}"
    assert f"a: not healthy: {said}" in capsys.readouterr().out


@pytest.mark.parametrize("wave", ["0", "-1", "all"])
def test_a_wave_has_a_number_of_clusters(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wave: str
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, f"--wave={wave}")
    assert "--wave" in capsys.readouterr().err


def test_an_update_outlives_the_terminal_but_not_ctrl_c(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(fleet, "a")
    ignored = fleet.folder / "ignored"
    up = fleet.folder / "up---yes-a"
    up.write_text(up.read_text() + f"grep SigIgn /proc/$$/status >{ignored}\n")
    # A background job of a shell ignores it already, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert run(monkeypatch) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    mask = int(ignored.read_text().split()[1], 16)
    assert mask & 1 << signal.SIGHUP - 1
    assert not mask & 1 << signal.SIGINT - 1


STACKS = "/apis/pulumi.com/v1/namespaces/clusters/stacks"
REQUEST = "pulumi.com/reconciliation-request"
BY_OPERATOR = {"exec.agent": "pulumi-kubernetes-operator/v2.9.0"}


class Operator(Objects):
    """The admin cluster: its operator takes a look whenever its objects are asked for.

    `acts` are what it does then, one after the other; the last one again and again.
    """

    def __init__(self, fleet: Fleet, *acts: str) -> None:
        super().__init__()
        self._fleet = fleet
        self._acts: dict[str, list[str]] = {}
        self._usual = [*acts] or ["succeed"]
        self.kept[STACKS] = {"items": []}
        operator = self

        class Api(self.handler()):  # type: ignore[misc]
            def do_GET(self) -> None:  # noqa: N802
                operator.act(self.path)
                super().do_GET()

        fleet.api("admin", Api)

    def run(self, name: str, **spec: str) -> None:
        """Have it run the cluster of a stack, which it has updated before."""
        backend = f"file://{self._fleet.folder}/backend"
        before = {"reconcileRequest": "before", "state": "succeeded"}
        document = {
            "metadata": {"name": name, "annotations": {REQUEST: "before"}},
            "spec": {"stack": name, "backend": backend, **spec},
            "status": {"observedReconcileRequest": "before", "lastUpdate": before},
        }
        self.kept[f"{STACKS}/{name}"] = document
        self.kept[STACKS]["items"].append(document)
        history = [{"result": "succeeded", "environment": BY_OPERATOR}]
        self._fleet.write(f"stack-history-{name}", history)

    def merge(self, path: str, changes: dict[str, Any]) -> None:
        super().merge(path, changes)
        self.kept[path]["metadata"]["annotations"] |= changes["metadata"]["annotations"]
        self._acts[path] = [*self._usual]

    def act(self, path: str) -> None:
        if not (acts := self._acts.get(path)):
            return
        document = self.kept[path]
        status, marks = document["status"], document["metadata"]["annotations"]
        match acts.pop(0) if len(acts) > 1 else acts[0]:
            case "observe":
                status["observedReconcileRequest"] = marks[REQUEST]
            case "ask again":
                marks[REQUEST] = "retry-by-another"
            case "wait for all":
                if len(self.merged) < len(self.kept[STACKS]["items"]):
                    acts.insert(0, "wait for all")
            case "succeed":
                status["observedReconcileRequest"] = marks[REQUEST]
                status.pop("conditions", None)
                done = {"reconcileRequest": marks[REQUEST], "state": "succeeded"}
                status["lastUpdate"] = done
                script = UP.format(folder=self._fleet.folder, name=path.rpartition("/")[2])
                subprocess.run(script.split(), check=True)
            case "fail":
                status["observedReconcileRequest"] = marks[REQUEST]
                status["lastUpdate"] = {"reconcileRequest": marks[REQUEST], "state": "failed"}
            case "give up" | "lose the pod" as what:
                status["observedReconcileRequest"] = marks[REQUEST]
                reason = "UpdateFailed" if what == "give up" else "WorkspaceFailed"
                stalled = {"type": "Stalled", "status": "True", "reason": reason}
                status["conditions"] = [{**stalled, "message": "3 times"}]
            case "be deleted":
                del self.kept[path]
                del self._acts[path]


class TestOperated:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operated, "_PAUSE", 0)

    @pytest.fixture(autouse=True)
    def clusters(self, fleet: Fleet) -> None:
        for name in "ab":
            add(fleet, name)

    def test_the_operator_upgrades_what_it_runs_and_pulumi_up_the_others(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = Operator(fleet, "observe", "observe", "succeed")
        made.run("a")
        # Of another backend, and one that no backend is set for: not ours.
        made.run("b", backend="s3://another")
        made.kept[STACKS]["items"].append({"metadata": {"name": "c"}, "spec": {"stack": "c"}})
        fleet.history("b", "succeeded")
        assert run(monkeypatch, "--admin", "admin", "--wave", "2", "a", "b") == 0
        [(path, changes)] = made.merged
        assert path == f"{STACKS}/a"
        assert changes["spec"] == {"config": {"kubernetesVersion": NEW}}
        assert updated(fleet) == ["b"]
        # The next `commands.fleet add` must not take it back.
        assert configured("a") == NEW
        out = capsys.readouterr().out
        assert "a: upgrading, `kubectl -n clusters logs a-workspace-0 -c pulumi` has the" in out
        assert f"a: healthy at {NEW}" in out

    def test_two_in_a_wave_are_upgraded_at_the_same_time(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operated, "_PATIENCE", 10)
        made = Operator(fleet, "observe", "wait for all", "succeed")
        made.run("a")
        made.run("b")
        assert run(monkeypatch, "--admin", "admin", "--wave", "2", "a", "b") == 0
        assert len(made.merged) == 2

    def test_an_object_that_still_has_the_old_version_is_changed_again(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At its next resync, the operator would take the upgrade back."""
        made = Operator(fleet, "observe", "succeed")
        made.run("a")
        for requests in (1, 2):
            assert run(monkeypatch, "--admin", "admin", "a") == 0
            assert len(made.merged) == requests

    @pytest.mark.parametrize(
        "acts",
        [
            ("fail", "succeed"),
            # Long after the request.
            (*["observe"] * 30, "ask again", "succeed"),
            ("lose the pod", "observe", "succeed"),
        ],
    )
    def test_another_try_of_the_operator_counts(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, acts: tuple[str, ...]
    ) -> None:
        patience = 0.3 if "ask again" in acts else 300
        monkeypatch.setattr(operated, "_PATIENCE", patience)
        monkeypatch.setattr(operated, "_PAUSE", 0.02)
        Operator(fleet, *acts).run("a")
        assert run(monkeypatch, "--admin", "admin", "a") == 0

    @pytest.mark.parametrize(
        ("acts", "patience", "said"),
        [
            (
                ("fail", "give up"),
                300,
                "the operator has given up (UpdateFailed: 3 times); see `kubectl -n clusters logs ",
            ),
            (("lose the pod",), 0, "the operator has given up (WorkspaceFailed: 3 times); replace"),
            (("observe", "be deleted"), 300, "someone has deleted the Stack a"),
            (("do nothing",), 0, "the operator does not act: look at its pod"),
        ],
    )
    def test_an_update_of_the_operator_that_does_not_end_well_stops_the_waves(
        self,
        fleet: Fleet,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        acts: tuple[str, ...],
        patience: int,
        said: str,
    ) -> None:
        monkeypatch.setattr(operated, "_PATIENCE", patience)
        made = Operator(fleet, *acts)
        made.run("a")
        made.run("b")
        assert run(monkeypatch, "--admin", "admin", "a", "b") == 1
        assert len(made.merged) == 1
        told = capsys.readouterr()
        assert f"a: {said}" in told.out
        assert "stopped at a; not begun: b" in told.err

    def test_the_admin_cluster_comes_alone_at_the_end(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(fleet, "zoo")
        add(fleet, "admin")
        Operator(fleet).run("a")
        fleet.program(
            "up---yes-admin",
            f"#!/bin/sh\nsed -i s/{VERSION}/{NEW}/g {fleet.folder}/stack-output-admin\nexit 1\n",
        )
        fleet.write("preview---json-admin", {"changeSummary": {"update": 4}})
        assert run(monkeypatch, "--admin", "admin", "--wave", "9", "admin", "a", "zoo") == 1
        assert updated(fleet) == ["zoo", "admin"]

    @pytest.mark.parametrize("kind", ["update", "destroy"])
    def test_without_its_admin_cluster_it_is_refused_before_anything_changes(
        self,
        fleet: Fleet,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        kind: str,
    ) -> None:
        if kind == "destroy":
            fleet.empty("b")
        last = {"kind": kind, "result": "succeeded", "environment": BY_OPERATOR}
        fleet.write("stack-history-b", [last])
        status = run(monkeypatch, "a", "b")
        told = capsys.readouterr()
        if kind == "destroy":
            assert (status, updated(fleet)) == (1, [])
            assert "b has no cluster: run `pulumi up` for it, or do not name it" in told.err
            assert run(monkeypatch) == 0
            assert "left alone: b has no cluster" in capsys.readouterr().out
            assert updated(fleet) == ["a"]
            return
        assert status == 1
        assert "b: its last update was that of an operator" in told.err
        assert "nothing was changed" in told.err
        assert not (fleet.folder / "calls").read_text().count("up --yes")
        assert configured("a") == VERSION

    def test_an_admin_cluster_without_an_operator_is_told(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fleet.api("admin", Objects().handler())
        assert run(monkeypatch, "--admin", "admin", "a") == 1
        assert capsys.readouterr().err.startswith("admin has no operator: leave out `--admin`")

    def test_one_that_is_spelled_in_another_way_is_told(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Operator(fleet)
        assert run(monkeypatch, "--admin", "me/admin", "a") == 1
        assert "there is no admin cluster me/admin: name it" in capsys.readouterr().err

    def test_a_kubeconfig_needs_to_be_that_of_an_admin_cluster(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(monkeypatch, "--kubeconfig", "file", "a") == 1
        assert "name it with `--admin`" in capsys.readouterr().err
