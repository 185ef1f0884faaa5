"""The fleet's list, kubeconfigs and SSH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest
import yaml

from commands.fleet.__main__ import main
from commands.fleet.clusters import trouble
from commands.kubernetes_api import Administrator, KubeconfigError
from commands.pulumi_cli import pulumi
from tests.unit.fleet import KEY, NODES, PROJECT, Fleet, host_key, listed, node, pending, resources

DOWN = "https://127.0.0.1:1"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
    return main()


def test_the_list_shows_what_lives_and_says_what_does_not(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = listed(node("demo-worker-0"), node("metal-0", "Unknown"))
    fleet.cluster("live", {NODES: nodes}, result="failed")
    fleet.stack("down", DOWN)
    fleet.empty("empty")
    fleet.sealed("sealed")
    assert run(monkeypatch, "list") == 1
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert list(rows) == ["NAME", "down", "empty", "live", "sealed"]
    assert "v1.36.3" in rows["live"]
    assert "1/2" in rows["live"]
    # Whole also where there is no terminal.
    assert rows["live"].rstrip().endswith("failed 2026-11-22T03:04Z")
    # Known from the state, also of a cluster that is down.
    assert "https://198.51.100.7:6443" in rows["down"]
    assert "10.8.0.0/22" in rows["down"]
    problems = err.splitlines()
    assert [line.partition(":")[0] for line in problems] == ["down", "empty", "sealed"]
    assert "down: its API does not answer" in problems[0]
    assert "empty: has no cluster: it never came up, or it was destroyed" in problems[1]
    assert "sealed: its state cannot be read" in problems[2]
    assert "incorrect passphrase" in problems[2]


def test_the_list_is_data_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.cluster("live")
    fleet.sealed("sealed")
    assert run(monkeypatch, "list", "--output", "json") == 1
    [live, sealed] = json.loads(capsys.readouterr().out)
    assert (live["clusterId"], live["nodes"], live["ready"]) == ("demo-1a2b3c4d", 2, 2)
    assert (live["lastUpdateResult"], live["hostCidr"]) == ("succeeded", "10.8.0.0/22")
    assert (live["podCidr"], live["serviceCidr"]) == ("10.244.0.0/16", "10.96.0.0/16")
    assert live["problems"] == []
    assert "incorrect passphrase" in sealed["problems"][0]


@pytest.mark.parametrize(
    ("noted", "shown"),
    [
        ({}, "none"),
        ({"first": "20261122T030405Z bucket"}, "2026-11-22T03:04Z bucket"),
        (
            # The copy of the first one into the bucket has failed since.
            {"first": "20261121T230405Z bucket", "second": "20261122T010000Z disk"},
            "2026-11-22T01:00Z disk",
        ),
        (
            # Kubelets may annotate their own Nodes.
            {
                "first": "20261121T230405Z bucket",
                "second": "soon",
                "third": "20261122T230405Z \x1b[2J",
            },
            "2026-11-21T23:04Z bucket",
        ),
    ],
)
def test_the_newest_backup_is_shown(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    noted: Mapping[str, str],
    shown: str,
) -> None:
    nodes = [node(name, backup=text) for name, text in noted.items()]
    fleet.cluster("live", {NODES: listed(*nodes, node("worker"))})
    fleet.stack("down", DOWN)
    run(monkeypatch, "list")
    header, down, live = capsys.readouterr().out.splitlines()
    column = header.index("NEWEST BACKUP")
    assert live[column:].startswith(f"{shown}  ")
    # It may have some.
    assert down[column:].startswith("- ")


def test_an_update_at_work_or_killed_is_told(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("killed", "locked", "live"):
        fleet.cluster(name)
    operations = [pending("creating", "demo-worker-1")]
    state = {"resources": resources("killed"), "pending_operations": operations}
    fleet.write("stack-export-killed", {"deployment": state})
    holder = {"username": "ada", "hostname": "desk", "timestamp": "2026-11-22T01:02:03.4Z"}
    # A stack without resources is locked as well. The `live` that is locked is another project's.
    fleet.empty("new")
    for project, stack in ((PROJECT, "locked"), (PROJECT, "new"), ("other", "live")):
        lock = fleet.folder / f"backend/.pulumi/locks/organization/{project}/{stack}/1.json"
        lock.parent.mkdir(parents=True)
        lock.write_text(json.dumps(holder))
    assert run(monkeypatch, "list") == 1
    out, err = capsys.readouterr()
    assert out.count("2/2") == 3
    [killed, locked, _, new] = err.splitlines()
    assert "locked by ada@desk" in new
    assert killed.startswith("killed: an update is at work on it, or was killed (creating demo-wor")
    assert locked.startswith(
        "locked: an update is at work on it, or was killed (locked by ada@desk since 2026-11-22T01:"
    )


def test_an_update_at_work_is_told_also_of_a_stack_with_another_passphrase(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.sealed("sealed")
    state = {"resources": [], "pending_operations": [pending("creating", "demo-worker-1")]}
    fleet.write("stack-export-sealed", {"deployment": state})
    assert run(monkeypatch, "list") == 1
    [update, sealed] = capsys.readouterr().err.splitlines()
    assert "an update is at work on it, or was killed" in update
    assert "incorrect passphrase" in sealed


def test_drift_is_what_a_preview_with_refresh_would_change(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("changed", "refused", "same"):
        fleet.cluster(name)
        fleet.configure(name)
    fleet.write("preview---json-same", {"changeSummary": {"same": 9, "refresh": 9}})
    fleet.write("preview---json-changed", {"changeSummary": {"same": 9, "create": 1}})
    message = "error: this cloud cannot host the configuration, 1 fault:\n  flavor = x: no such\n"
    end = "error: an unhandled error occurred: program exited with non-zero exit code: 1\n"
    told = {"diagnostics": [{"severity": "error", "message": each} for each in (message, end)]}
    file = fleet.write("told", told)
    fleet.program("preview---json-refused", f"#!/bin/sh\ncat {file}\nexit 1\n")
    assert run(monkeypatch, "list", "--drift") == 1
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["DRIFT", "yes", "-", "no"]
    assert len(fleet.called("--refresh")) == 3
    assert err == (
        "refused: its drift is not known: this cloud cannot host the configuration, 1 fault: "
        "flavor = x: no such\n"
    )


def test_a_preview_that_a_policy_refuses_is_told(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.cluster("live")
    fleet.configure("live")
    file = fleet.write("told", {"steps": [{"op": "create", "provider": "huge"}]})
    fleet.program("preview---json-live", f"#!/bin/sh\ncat {file}\nexit 1\n")
    assert run(monkeypatch, "list", "--drift") == 1
    assert capsys.readouterr().err == (
        "live: its drift is not known: Pulumi tells no error, as when a policy refuses the "
        "change: run `pulumi preview`\n"
    )


def test_what_a_preview_says_that_does_not_even_start_is_told(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("language", "packages"):
        fleet.cluster(name)
        fleet.configure(name)
    fleet.program(
        "preview---json-language",
        "#!/bin/sh\necho '{}'\necho error: no language plugin nodejs >&2\nexit 1\n",
    )
    said = (
        ("info#err", "ModuleNotFoundError: No module named 'pulumi'"),
        ("error", "error: an unhandled error occurred: program exited"),
    )
    told = {"diagnostics": [{"severity": kind, "message": text} for kind, text in said]}
    file = fleet.write("told", told)
    fleet.program("preview---json-packages", f"#!/bin/sh\ncat {file}\nexit 1\n")
    assert run(monkeypatch, "list", "--drift") == 1
    language, packages = capsys.readouterr().err.splitlines()
    assert language == "language: its drift is not known: error: no language plugin nodejs"
    assert "ModuleNotFoundError: No module named 'pulumi'" in packages


def test_the_drift_of_a_stack_without_its_file_is_not_compared_with_defaults(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.cluster("live")
    assert run(monkeypatch, "list", "--drift") == 1
    assert "Pulumi.live.yaml is missing" in capsys.readouterr().err
    assert fleet.called("preview") == []


def test_a_node_that_is_gone_is_counted_as_not_ready(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.cluster("live", {NODES: listed(node("demo-worker-0"))})
    assert run(monkeypatch, "list") == 1
    out, err = capsys.readouterr()
    assert "1/2" in out
    assert err == "live: the node metal-0 is missing\n"


def test_an_update_that_failed_is_told_also_of_a_stack_without_a_cluster(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.empty("new")
    fleet.history("new", "failed")
    assert run(monkeypatch, "list") == 1
    assert "failed 2026-11-22T03:04Z" in capsys.readouterr().out


def test_the_stacks_of_a_folder_are_listed_without_reading_their_states(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is half written would hide all others."""
    fleet.cluster("live")
    fleet.write("stack-ls-none", "").unlink()
    assert run(monkeypatch, "list") == 0
    assert "2/2" in capsys.readouterr().out


def test_without_the_option_nothing_is_previewed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.cluster("live")
    assert run(monkeypatch, "list") == 0
    assert not fleet.called("preview")
    assert "DRIFT" not in capsys.readouterr().out


def test_contexts_are_called_like_the_stacks(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Both clusters have the same name.
    url = fleet.cluster("a")
    fleet.stack("b", DOWN)
    fleet.sealed("sealed")
    assert run(monkeypatch, "kubeconfig", "--all") == 1
    out, err = capsys.readouterr()
    assert "left out: " in err
    merged = yaml.safe_load(out)
    assert merged["current-context"] == "a"
    servers = {each["name"]: each["cluster"]["server"] for each in merged["clusters"]}
    assert servers == {"a": url, "b": DOWN}
    assert [each["name"] for each in merged["users"]] == ["a", "b"]
    contexts = [each["context"] for each in merged["contexts"]]
    assert contexts == [{"cluster": name, "user": name} for name in "ab"]
    assert run(monkeypatch, "kubeconfig", "b") == 0
    assert yaml.safe_load(capsys.readouterr().out)["current-context"] == "b"


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("kubeconfig", "--all"),
        ("upgrade", "--to", "v1.36.3"),
        # All logins would be those of clusters that are gone.
        ("argocd", "--admin", "admin", "--kubeconfig", "file", "--remove-gone"),
    ],
)
def test_without_a_cluster_the_backend_may_be_the_wrong_one(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: Sequence[str],
) -> None:
    assert run(monkeypatch, *words) == 1
    assert "has no cluster of this project: is it the right one?" in capsys.readouterr().err


def test_outside_of_the_checkout_it_says_so(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (fleet.folder / "Pulumi.yaml").unlink()
    assert run(monkeypatch, "list") == 1
    assert capsys.readouterr().err == "there is no Pulumi.yaml here: run this in the checkout\n"


def test_ssh_verifies_the_jump_host_and_the_machine(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.stack("live", DOWN)
    assert run(monkeypatch, "ssh", "live", "demo-worker-0", "uptime", "-p") == 7
    folder = fleet.folder
    assert (folder / "asked").read_text() == "demo-worker-0 uptime -p\n"
    assert (folder / "mode").read_text() == "600\n"
    known = dict(line.split(" ", 1) for line in (folder / "known_hosts").read_text().splitlines())
    assert known["demo-worker-0"] == "key of demo-worker-0 host-key"
    assert known["entrance"] == known["demo-gateway-1"] == "key of demo-gateway host-key"
    config = (folder / "config").read_text()
    assert "Host demo-worker-0 10.8.0.31\nHostName 10.8.0.31\n" in config
    assert "Host demo-gateway-1\nHostName 198.51.100.7\nPort 2201\n" in config
    assert KEY not in config


@pytest.mark.parametrize(("shown", "expected"), [(None, [1, 2]), (1, [1, 2]), (2, [2])])
def test_only_host_keys_that_the_machines_may_show_are_known(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, shown: int | None, expected: list[int]
) -> None:
    fleet.stack("live", DOWN)
    machines = ("demo-gateway", "demo-worker-0")
    newer = [host_key("live", machine, "host-key-2") for machine in machines]
    fleet.write("stack-export-live", {"deployment": {"resources": [*resources("live"), *newer]}})
    told = json.loads((fleet.folder / "stack-output-live").read_text())
    fleet.write("stack-output-live", told | ({} if shown is None else {"hostKeys": shown}))
    assert run(monkeypatch, "ssh-config", "live") == 0
    known = (fleet.folder / "known_hosts").read_text().splitlines()
    keys = {1: "host-key", 2: "host-key-2"}
    for name, owner in (
        ("demo-worker-0", "demo-worker-0"),
        ("entrance", "demo-gateway"),
        ("demo-gateway-1", "demo-gateway"),
    ):
        assert [line for line in known if line.startswith(f"{name} ")] == [
            f"{name} key of {owner} {keys[generation]}" for generation in expected
        ]


def test_a_state_without_the_host_key_of_the_gateways_is_named(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.stack("live", DOWN)
    fleet.write("stack-export-live", {"deployment": {"resources": [host_key("live", "other")]}})
    assert run(monkeypatch, "ssh-config", "live") != 0
    assert "the state of live has no host key of its gateways" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh here")
def test_the_files_for_plain_ssh_are_for_their_owner_only(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.stack("live", DOWN)
    folder = fleet.folder / "100 %h"
    folder.mkdir()
    monkeypatch.chdir(folder)
    key = folder / "ssh_key"
    key.touch(mode=0o644)
    assert run(monkeypatch, "ssh-config", "live") == 0
    assert (key.stat().st_mode & 0o777, key.read_text()) == (0o600, KEY)
    line = ["ssh", "-G", "-F", "ssh_config", "10.8.0.31"]
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"hostkeyalias demo-worker-0", "proxyjump entrance"} <= {*told}
    # It expands the path of a key only when it reads it.
    assert f"identityfile {str(key).replace('%', '%%')}" in told
    assert f"userknownhostsfile {folder}/known_hosts" in told


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("demo-worker-9", "live has no machine demo-worker-9; it has demo-gateway-0, "),
        ("metal-0", "the state has no host key of metal-0, which existed before the cluster"),
    ],
)
def test_a_machine_that_cannot_be_reached_is_an_error(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: str,
    said: str,
) -> None:
    fleet.stack("live", DOWN)
    assert run(monkeypatch, "ssh", "live", machine) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "words"),
    [("pulumi", ["list"]), ("ssh", ["ssh", "live", "demo-worker-0"])],
)
def test_a_program_that_is_not_there_is_named(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str,
    words: list[str],
) -> None:
    fleet.stack("live", DOWN)
    (fleet.folder / missing).unlink()
    # What the stand-in for Pulumi needs.
    for name in ("sh", "cat"):
        (fleet.folder / name).symlink_to(Path("/bin", name))
    monkeypatch.setenv("PATH", str(fleet.folder))
    assert run(monkeypatch, *words) == 1
    assert f"there is no program `{missing}` on the PATH" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.stack("live", DOWN)
    (fleet.folder / "ssh_key").mkdir()
    assert run(monkeypatch, "ssh-config", "live") == 1
    assert str(fleet.folder / "ssh_key") in capsys.readouterr().err


def test_what_pulumi_says_is_understood_in_any_locale(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locale.getencoding", lambda: "latin-1")
    fleet.program("pulumi", "#!/bin/sh\nprintf '\"\\303\\274\"'\n")
    assert json.loads(pulumi("stack")) == "ü"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            422,
            {"message": "spec.image:\n Required \x1b[2Jvalue"},
            ": spec.image: Required [2Jvalue",
        ),
        (401, {"message": "Unauthorized"}, ""),
        (404, {}, ""),
        (503, None, ""),
    ],
)
def test_what_an_api_says_to_its_refusal_is_told(status: int, body: object, said: str) -> None:
    request = httpx.Request("PATCH", "https://198.51.100.7:6443/apis/pulumi.com/v1")
    answer = httpx.Response(status, json=body, request=request)
    refusal = httpx.HTTPStatusError("refused", request=request, response=answer)
    phrase = answer.reason_phrase
    assert trouble(refusal) == f"its API answers {status} {phrase} to /apis/pulumi.com/v1{said}"


def test_a_kubeconfig_that_leads_nowhere_is_not_an_api_that_does_not_answer() -> None:
    with pytest.raises(KubeconfigError) as refusal:
        Administrator.of("clusters: []")
    assert trouble(refusal.value) == str(refusal.value)
