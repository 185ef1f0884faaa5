"""After a killed run: what is deleted in the cloud, and what is left alone."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any
from unittest.mock import MagicMock

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack.exceptions import BadRequestException, ConflictException, NotFoundException

from cloud.login import login
from commands.local_backend import delete_empty_attributes
from commands.pulumi_cli import PulumiError
from commands.recover import orphaned_resources
from commands.recover.__main__ import main
from commands.recover.orphaned_resources import OrphanedResource
from commands.recover.state import State
from tests.unit.engine import CLUSTER_ID, run

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SERVER = "openstack:compute/instance:Instance"
RULE = "openstack:networking/secGroupRule:SecGroupRule"
# What a killed run had requested, and the ID of its cluster.
WORKER = {"name": "demo-worker-1", "metadata": {"cluster": "demo-1a", "role": "worker"}}
# Created twice, it is still one: it only points an address at a port.
IDEMPOTENT = {"openstack:networking/floatingIpAssociate:FloatingIpAssociate"}


class Cloud:
    """Three servers and two rules."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {}
        self.created_at: str | None = None
        self.compute = self
        self.network = self

    def servers(self, name: str) -> list[Thing]:
        assert name == "^demo-worker-1$"
        return [
            Thing(
                id=server,
                name="demo-worker-1",
                metadata={"cluster": mark},
                created_at=self.created_at,
            )
            for server, mark in (("old", "demo-1a"), ("new", "demo-1a"), ("theirs", "demo-2b"))
        ]

    def delete_server(self, server: Thing) -> None:
        self.deleted.append(server.id)

    def wait_for_delete(self, server: Thing, wait: float) -> None:
        assert server.id in self.deleted

    def security_group_rules(self, security_group_id: str) -> list[Thing]:
        assert security_group_id == "group"
        common = {
            "direction": "ingress",
            "protocol": "tcp",
            "remote_group_id": None,
            "remote_ip_prefix": "192.0.2.0/24",
            "description": "SSH",
        }
        return [
            Thing(id="ssh", port_range_min=22, port_range_max=22, **common),
            Thing(id="api", port_range_min=6443, port_range_max=6443, **common),
        ]

    def delete_security_group_rule(self, rule: Thing) -> None:
        self.deleted.append(rule.id)


def _fake_cli(monkeypatch: pytest.MonkeyPatch, pulumi: Callable[..., object]) -> None:
    for module in ("recover.state", "previews", "pulumi_cli"):
        monkeypatch.setattr(f"commands.{module}.pulumi", pulumi)
    monkeypatch.setattr("commands.recover.__main__.local_locks", dict[str, str])


def test_attributes_that_a_kill_left_empty_are_deleted(tmp_path: Path) -> None:
    stacks = tmp_path / ".pulumi/stacks/openstack-kubernetes"
    stacks.mkdir(parents=True)
    (stacks / "demo.json").write_text("{}")
    (stacks / "demo.json.attrs").touch()
    (stacks / "other.json.attrs").write_text("{}")
    assert delete_empty_attributes(f"file://{tmp_path}?no_tmp_dir=true") == [
        stacks / "demo.json.attrs"
    ]
    assert {path.name for path in stacks.iterdir()} == {"demo.json", "other.json.attrs"}


def test_a_backend_elsewhere_has_no_attributes_to_repair() -> None:
    assert delete_empty_attributes("s3://bucket/folder") == []


def test_only_a_server_that_the_state_does_not_know_is_deleted() -> None:
    cloud: Any = Cloud()
    (found,) = orphaned_resources.find(cloud, SERVER, WORKER, known=["old"])
    assert str(found) == "server demo-worker-1 (new)"
    found.delete()
    assert cloud.deleted == ["new"]


def marked(name: str, cluster: str | None) -> Thing:
    return Thing(id=name, name=name, metadata={} if cluster is None else {"cluster": cluster})


@pytest.mark.parametrize(
    ("kind", "listed", "inputs", "there"),
    [
        (
            "blockstorage/volume:Volume",
            "block_storage.volumes",
            {"name": "demo-control-plane-0-etcd", "metadata": {"cluster": "demo-1a"}},
            [marked("ours", "demo-1a"), marked("theirs", "demo-2b"), marked("older", None)],
        ),
        (
            "networking/port:Port",
            "network.ports",
            {"name": "demo-worker-0", "networkId": "shared", "securityGroupIds": ["a", "b"]},
            [
                Thing(id="ours", name="demo-worker-0", security_group_ids=["b", "a"]),
                Thing(id="theirs", name="demo-worker-0", security_group_ids=["c", "d"]),
            ],
        ),
        (
            "compute/serverGroup:ServerGroup",
            "compute.server_groups",
            {"name": "demo-worker"},
            [
                Thing(id="ours", name="demo-worker", member_ids=[]),
                Thing(id="theirs", name="demo-worker", member_ids=["a server"]),
            ],
        ),
        (
            "dns/recordSet:RecordSet",
            "dns.recordsets",
            {"name": "demo.", "type": "A", "zoneId": "zone", "records": ["198.51.100.7"]},
            [
                Thing(id="ours", name="demo.", records=["198.51.100.7"]),
                Thing(id="theirs", name="demo.", records=["198.51.100.8"]),
            ],
        ),
    ],
)
def test_what_another_cluster_of_the_same_name_has_is_left_alone(
    kind: str, listed: str, inputs: dict[str, Any], there: list[Thing]
) -> None:
    cloud = MagicMock(**{f"{listed}.return_value": there})
    found = orphaned_resources.find(cloud, f"openstack:{kind}", inputs, known=[])
    assert [each.id.rpartition("/")[2] for each in found] == ["ours"]


def test_servers_and_volumes_have_the_mark_of_their_cluster() -> None:
    marks = [
        each.inputs["metadata"]["cluster"]
        for kind in (SERVER, "volume:Volume")
        for each in run({"controlPlane": {"etcdVolume": {"size": 10}}}).all(kind).values()
    ]
    assert marks == [CLUSTER_ID] * 10


def test_only_the_security_group_rule_that_was_requested_is_deleted() -> None:
    cloud: Any = Cloud()
    asked = {
        "securityGroupId": "group",
        "direction": "ingress",
        "protocol": "tcp",
        "portRangeMin": 22,
        "portRangeMax": 22,
        "remoteIpPrefix": "192.0.2.0/24",
    }
    assert [orphan.id for orphan in orphaned_resources.find(cloud, RULE, asked, known=[])] == [
        "ssh"
    ]


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        ("networking/network:Network", "networks"),
        ("networking/router:Router", "routers"),
        ("networking/secGroup:SecGroup", "security_groups"),
        ("networking/port:Port", "ports"),
        ("networking/floatingIp:FloatingIp", "ips"),
    ],
)
def test_an_administrator_deletes_nothing_of_other_projects(kind: str, listed: str) -> None:
    asked: list[dict[str, Any]] = []

    def answer(**query: Any) -> list[Any]:
        asked.append(query)
        return []

    cloud: Any = MagicMock(current_project_id="ours")
    setattr(cloud.network, listed, answer)
    inputs = {"name": "demo", "description": "demo", "networkId": "net"}
    assert orphaned_resources.find(cloud, f"openstack:{kind}", inputs, known=[]) == []
    assert asked[0]["project_id"] == "ours"


def test_everything_that_the_program_creates_in_the_cloud_can_be_found() -> None:
    everything = run(
        {
            "controlPlane": {"etcdVolume": {"size": 10}},
            "dns": {"zone": "example.org.", "name": "demo"},
        }
    )
    made = {
        each.type for each in everything.resources.values() if each.type.startswith("openstack:")
    }
    assert SERVER in made
    assert made - IDEMPOTENT <= set(orphaned_resources.FINDERS)


def test_only_what_was_being_created_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    urn = "urn:pulumi:demo::openstack-kubernetes::cluster$"
    exported = f"""{{"deployment": {{
      "resources": [{{"urn": "{urn}{SERVER}::demo-worker-0", "type": "{SERVER}", "id": "old"}}],
      "pending_operations": [
        {{"type": "creating", "resource": {{
          "urn": "{urn}{SERVER}::demo-worker-1", "type": "{SERVER}",
          "inputs": {{"name": "demo-worker-1"}}}}}},
        {{"type": "deleting", "resource": {{
          "urn": "{urn}{SERVER}::demo-worker-0", "type": "{SERVER}", "id": "old"}}}}
      ]}}}}"""
    monkeypatch.setattr(State, "_pulumi", lambda *_: exported)
    state = State(stack="demo", config_file=None)
    assert [begun.name for begun in state.begun] == ["demo-worker-1"]
    assert state.known[SERVER] == {"old"}


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """The cloud of a stack whose last update has failed; `new` was created during that one."""

    def step(op: str, called: str, **inputs: object) -> dict[str, Any]:
        new = {"urn": f"a::{called}", "type": SERVER, "inputs": {**WORKER, **inputs}}
        return {"op": op, "newState": new}

    answers = {
        "whoami": {"url": "s3://bucket"},
        "cancel": {},
        "stack history": [{"result": "failed", "startTime": "2026-11-22T03:04:05.000Z"}],
        "stack export": {"deployment": {"resources": [{"type": SERVER, "id": "old"}]}},
        "preview": {
            "steps": [
                # Its port may have been created by then, and is not known to the preview.
                step("create", "demo-worker-1", networks=[{"port": UNKNOWN}]),
                step("same", "demo-worker-2", name="demo-worker-2"),
                step("create", "demo-worker-3", metadata={"cluster": UNKNOWN}),
            ]
        },
    }
    cloud = Cloud()

    def pulumi(*words: str, stdin: str | None = None) -> str:
        assert stdin is None, "the state stays as it is"
        cloud.asked.append(words[0])
        return json.dumps(answers[" ".join(words[: 2 if words[0] == "stack" else 1])])

    cloud.answers = answers
    _fake_cli(monkeypatch, pulumi)
    monkeypatch.setattr(State, "provider_config", lambda _: {})
    monkeypatch.setattr("commands.recover.__main__.connect", lambda _: cloud)
    monkeypatch.setattr("commands.recover.__main__._SETTLE", 0)
    monkeypatch.setattr("commands.recover.__main__._PATIENCE", 0.1)
    return cloud


@pytest.mark.parametrize(("option", "deleted"), [([], []), (["--without-checkpoints"], ["new"])])
def test_after_a_killed_update_without_checkpoints_all_that_is_planned_is_searched_for(
    failed: Cloud, monkeypatch: pytest.MonkeyPatch, option: list[str], deleted: list[str]
) -> None:
    failed.answers["stack history"] = [{"result": "succeeded"}]
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo", *option])
    assert main() == 0
    assert failed.deleted == deleted


def test_what_was_requested_last_is_deleted_first_and_what_that_uncovers_too(
    failed: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []

    def orphan(name: str) -> OrphanedResource:
        return OrphanedResource("thing", name, name, lambda: deleted.append(name))

    # A group with servers in it may be another cluster's.
    rounds = [["port", "server"], ["port", "group"], ["group"]]
    monkeypatch.setattr(
        "commands.recover.__main__._orphaned", lambda *_: [orphan(each) for each in rounds.pop(0)]
    )
    words = ["recover", "--yes", "--stack", "demo", "--without-checkpoints"]
    monkeypatch.setattr("sys.argv", words)
    assert main() == 0
    assert deleted == ["server", "port", "group"]


def test_an_older_record_of_what_was_being_created_does_not_hide_what_is_planned(
    failed: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = failed.answers["stack export"]["deployment"]
    begun = {"urn": "a::demo-worker-1-host-key", "type": "tls:index/privateKey:PrivateKey"}
    deployment["pending_operations"] = [{"type": "creating", "resource": begun}]
    monkeypatch.setattr(State, "forget_begun", lambda _: None)
    words = ["recover", "--yes", "--stack", "demo", "--without-checkpoints"]
    monkeypatch.setattr("sys.argv", words)
    assert main() == 0
    assert failed.deleted == ["new"]


def test_after_an_update_that_failed_what_the_next_one_would_create_is_searched_for(
    failed: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo"])
    assert main() == 0
    assert failed.deleted == ["new"]
    assert "exists, but is not in the state: server demo-worker-1 (new)" in capsys.readouterr().out


def test_the_operators_own_run_deletes_only_what_a_killed_update_was_creating(
    failed: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # To an older copy of the state, a living cluster is an orphan.
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--only-begun", "--stack", "demo"])
    assert main() == 0
    assert "cancel" in failed.asked
    assert failed.deleted == []
    assert "nothing was being created" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("created", "deleted"),
    [
        ("2026-11-22T03:04:06Z", ["new"]),
        ("2026-11-22T03:04:06.000000", ["new"]),
        # To an older copy of the state, a living cluster is an orphan.
        ("2026-11-22T03:04:04Z", []),
        (None, []),
    ],
)
def test_with_no_one_to_ask_only_what_the_failed_update_has_made_is_deleted_and_locks_stay(
    failed: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    created: str | None,
    deleted: list[str],
) -> None:
    failed.created_at = created
    monkeypatch.setattr("sys.argv", ["recover", "--unattended", "--stack", "demo"])
    assert main() == 0
    assert failed.deleted == deleted
    assert "cancel" not in failed.asked
    out = capsys.readouterr().out
    assert ("`commands.recover` may delete it" in out) == (not deleted)


@pytest.mark.parametrize("how", [["--unattended"], ["--yes"]])
def test_what_another_update_has_made_meanwhile_is_not_deleted(
    failed: Cloud, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    failed.created_at = "2026-11-22T03:04:06Z"
    deployment = failed.answers["stack export"]["deployment"]
    listed = failed.servers

    def servers(name: str) -> list[Thing]:
        deployment["manifest"] = {"time": "2026-11-22T03:05:00Z"}
        return listed(name)

    monkeypatch.setattr(failed, "servers", servers)
    monkeypatch.setattr("sys.argv", ["recover", *how, "--stack", "demo"])
    # The operator's own run has nothing to repair then; a person is told.
    assert main() == (0 if how == ["--unattended"] else 1)
    assert failed.deleted == []


@pytest.mark.parametrize(
    ("refusal", "status", "told"),
    [
        (ConflictException("ports are still in use"), 0, "left, because it is in use"),
        (BadRequestException("status must be available"), 1, "not deleted yet"),
    ],
)
def test_what_the_cloud_refuses_to_delete_is_named_and_the_rest_deleted(
    failed: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refusal: Exception,
    status: int,
    told: str,
) -> None:
    deleted: list[str] = []

    def refuse() -> None:
        deleted.append("not n")
        raise refusal

    orphans = [
        OrphanedResource("port", "demo", "p", lambda: deleted.append("p")),
        OrphanedResource("network", "demo", "n", refuse),
    ]
    monkeypatch.setattr("commands.recover.__main__._orphaned", lambda *_: orphans)
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo"])
    assert main() == status
    assert deleted[-1] == "p"
    # A volume may be in the middle of its creation: that is tried again.
    assert (deleted.count("not n") > 1) == (status == 1)
    said = capsys.readouterr().out
    assert told in said
    assert f"network demo (n) ({refusal}" in said
    assert said.endswith("done: run `pulumi up`\n") == (status == 0)


def test_an_attachment_to_a_server_that_is_gone_is_gone() -> None:
    cloud = MagicMock()
    cloud.compute.volume_attachments.side_effect = NotFoundException("Instance s")
    inputs = {"instanceId": "s", "volumeId": "v"}
    kind = "openstack:compute/volumeAttach:VolumeAttach"
    assert orphaned_resources.find(cloud, kind, inputs, known=[]) == []


def test_the_login_is_that_of_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = """{"openstack:cloud": {"value": "mine", "secret": false},
                 "openstack:password": {"value": "hidden", "secret": true},
                 "openstack-kubernetes:image": {"value": "debian-13", "secret": false}}"""
    monkeypatch.setattr(State, "_pulumi", lambda *_: listed)
    state = State(stack="demo", config_file=None)
    assert state.provider_config() == {"cloud": "mine", "password": "hidden"}
    assert login(state.provider_config().get, {}).value == "mine"


def test_a_cloud_that_does_not_answer_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud = MagicMock()
    cloud.compute.servers.side_effect = ConnectFailure("no route")
    begun = {"urn": "a::demo-worker-1", "type": SERVER, "inputs": WORKER}
    operation = {"type": "creating", "resource": begun}
    exported = json.dumps({"url": "s3://bucket", "deployment": {"pending_operations": [operation]}})
    _fake_cli(monkeypatch, lambda *_, stdin=None: exported)
    monkeypatch.setattr(State, "provider_config", lambda _: {})
    monkeypatch.setattr("commands.recover.__main__.connect", lambda _: cloud)
    monkeypatch.setattr("commands.recover.__main__._SETTLE", 0)
    monkeypatch.setattr("sys.argv", ["recover", "--yes"])
    assert main() == 1
    assert capsys.readouterr().err == "no route\n"


def test_without_a_terminal_the_lock_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[str] = []
    _fake_cli(monkeypatch, lambda *words, **_: called.extend(words))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.argv", ["recover", "--stack", "demo"])
    assert main() == 1
    assert called == []
    assert "there is no terminal to ask on: `--yes` answers yes" in capsys.readouterr().err


def test_the_state_is_read_after_the_lock_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def pulumi(*arguments: str, stdin: str | None = None) -> str:
        said.append(arguments[0])
        if arguments[:2] == ("stack", "history"):
            return "[]"
        return '{"url": "s3://bucket", "deployment": {"pending_operations": []}}'

    _fake_cli(monkeypatch, pulumi)
    monkeypatch.setattr("commands.pulumi_cli.pulumi", pulumi)
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo"])
    assert main() == 0
    assert said == ["whoami", "cancel", "stack", "stack"]


@pytest.mark.parametrize(
    ("words", "selected", "named"),
    [
        (["--stack", "shop"], None, "shop"),
        ([], "demo", "demo"),
        # A kill has left its state unreadable, which comes next.
        ([], None, "the selected stack"),
    ],
)
def test_the_question_names_the_stack(
    monkeypatch: pytest.MonkeyPatch, words: list[str], selected: str | None, named: str
) -> None:
    asked: list[str] = []

    def pulumi(*arguments: str, stdin: str | None = None) -> str:
        assert arguments == ("stack", "--show-name")
        if selected is None:
            raise PulumiError("failed to load checkpoint: EOF")
        return f"{selected}\n"

    def answer(question: str, *, yes: bool) -> bool:
        asked.append(question)
        return yes

    _fake_cli(monkeypatch, pulumi)
    monkeypatch.setattr("commands.recover.__main__.agreed", answer)
    monkeypatch.setattr("sys.argv", ["recover", *words])
    assert main() == 1
    assert asked == [f"Remove the lock of {named}? No other run may be at work on it."]


def test_a_lock_of_a_folder_is_shown_with_its_holder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fake_cli(monkeypatch, lambda *words, **_: "[]" if "history" in words else '{"deployment": {}}')
    monkeypatch.setattr("commands.recover.__main__.backend_url", lambda: "s3://bucket")
    holder = "locked by ada@laptop since 2026-11-26T01:00Z"
    monkeypatch.setattr("commands.recover.__main__.local_locks", lambda: {"demo": holder})
    monkeypatch.setattr("sys.argv", ["recover", "--stack", "demo"])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main() == 1
    assert f"Remove the lock of demo ({holder})? " in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo"])
    assert main() == 0
    assert f"unlocked demo ({holder})\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        ("error: [409] Conflict: The Update has already completed", 0),
        ("error: stack demo has never been updated", 0),
        ("error: [401] Unauthorized", 1),
    ],
)
def test_a_lock_that_is_gone_already_is_no_error(
    monkeypatch: pytest.MonkeyPatch, refusal: str, status: int
) -> None:
    def pulumi(*arguments: str, stdin: str | None = None) -> str:
        if arguments[0] == "cancel":
            raise PulumiError(f"pulumi cancel --yes: {refusal}")
        if arguments[:2] == ("stack", "history"):
            return '[{"result": "succeeded"}]'
        return '{"url": "https://app.pulumi.com/me", "deployment": {}}'

    _fake_cli(monkeypatch, pulumi)
    monkeypatch.setattr("commands.pulumi_cli.pulumi", pulumi)
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo"])
    assert main() == status


def test_ctrl_c_at_the_question_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("commands.recover.__main__.local_locks", dict[str, str])
    monkeypatch.setattr("commands.recover.__main__.agreed", interrupted)
    monkeypatch.setattr("sys.argv", ["recover", "--stack", "demo"])
    assert main() == 130
    assert "it can be run again" in capsys.readouterr().err


@pytest.mark.parametrize("written", ["2026-11-22T03:04:05Z", "2026-11-22T03:14:15Z"])
def test_the_state_of_a_run_that_came_in_between_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], written: str
) -> None:
    begun = {"urn": "a::demo-worker-1", "type": SERVER, "inputs": WORKER}
    first = "2026-11-22T03:04:05Z"
    states = [
        {
            "manifest": {"time": time},
            "pending_operations": [{"type": "creating", "resource": begun}],
        }
        for time in (first, written)
    ]
    imported: list[str | None] = []

    def pulumi(*arguments: str, stdin: str | None = None) -> str:
        match arguments[:2]:
            case ("stack", "export"):
                return json.dumps({"deployment": states.pop(0)})
            case ("stack", "import"):
                imported.append(stdin)
        return '{"url": "s3://bucket"}'

    cloud = MagicMock()
    cloud.compute.servers.return_value = []
    _fake_cli(monkeypatch, pulumi)
    monkeypatch.setattr(State, "provider_config", lambda _: {})
    monkeypatch.setattr("commands.recover.__main__.connect", lambda _: cloud)
    monkeypatch.setattr("commands.recover.__main__._SETTLE", 0)
    monkeypatch.setattr("sys.argv", ["recover", "--yes", "--stack", "demo"])
    if written == first:
        assert main() == 0
        [text] = imported
        assert text is not None
        assert json.loads(text)["deployment"]["pending_operations"] == []
    else:
        assert main() == 1
        assert imported == []
        assert "another run has changed the state of demo meanwhile" in capsys.readouterr().err
