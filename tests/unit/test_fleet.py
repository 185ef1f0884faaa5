"""The fleet's commands: Pulumi's CLI and ssh are programs in the path, the API is a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands.fleet.__main__ import main
from tests.unit.http_servers import Silent, kubeconfig, kubernetes_api

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----"

# Answers from files; a stack without one is locked away by another passphrase.
PULUMI = """\
#!/bin/sh
stack=none previous=
for word in "$@"; do
  [ "$previous" != --stack ] || stack=$word
  previous=$word
done
cat "{folder}/$1-$2-$stack" 2>/dev/null && exit
echo "error: incorrect passphrase" >&2
exit 255
"""
SSH = """\
#!/bin/sh
cat "$2" >"{folder}/config"
cat "$(dirname "$2")/known_hosts" >"{folder}/known_hosts"
stat -c %a "$(dirname "$2")/key" >"{folder}/mode"
shift 2
echo "$@" >"{folder}/asked"
exit 7
"""


class Api(Silent):
    """An API server with two nodes, one of them Ready."""

    def do_GET(self) -> None:  # noqa: N802
        answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.3"},
            "/api/v1/nodes": {"items": [node("True"), node("Unknown")]},
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answers[self.path]).encode())


def node(ready: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}}


@pytest.fixture
def api(pem: Path) -> Iterator[str]:
    with kubernetes_api(Api, pem) as url:
        yield url


@pytest.fixture
def fleet(
    tmp_path: Path, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Mapping[str, str | None]], Path]:
    """A backend with these stacks: each has a cluster whose API is at the URL, or none."""

    def make(stacks: Mapping[str, str | None]) -> Path:
        folder = tmp_path / "fleet"
        folder.mkdir()
        for name, text in (("pulumi", PULUMI), ("ssh", SSH)):
            program = folder / name
            program.write_text(text.format(folder=folder))
            program.chmod(0o755)
        # The last one cannot be decrypted.
        listed = [{"name": name} for name in (*stacks, "sealed")]
        (folder / "stack-ls-none").write_text(json.dumps(listed))
        for name, url in stacks.items():
            outputs = {} if url is None else outputs_of(url, pem)
            (folder / f"stack-output-{name}").write_text(json.dumps(outputs))
            history = [
                {"kind": "update", "result": "failed", "endTime": "2026-11-22T03:04:05.000Z"}
            ]
            (folder / f"stack-history-{name}").write_text(json.dumps(history))
            (folder / f"stack-export-{name}").write_text(json.dumps(STATE))
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        monkeypatch.setenv("COLUMNS", "200")
        for name in ("https_proxy", "HTTPS_PROXY"):
            monkeypatch.delenv(name, raising=False)
        return folder

    return make


def outputs_of(url: str, pem: Path) -> dict[str, Any]:
    return {
        "kubeconfig": kubeconfig(url, pem),
        "apiEndpoint": "https://198.51.100.7:6443",
        "clusterId": "demo-1a2b3c4d",
        "version": "0.1.0",
        "immutableSettings": {"hostCidr": "10.8.0.0/22", "sshUser": "debian"},
        "gateways": [{"name": f"demo-gateway-{i}", "address": f"10.8.0.1{i}"} for i in range(2)],
        "nodes": [
            {"name": "demo-worker-0", "address": "10.8.0.31"},
            {"name": "metal-0", "address": "10.9.0.60"},
        ],
        "sshPrivateKey": KEY,
    }


def host_key(machine: str, kind: str = "host-key") -> dict[str, Any]:
    return {
        "type": "tls:index/privateKey:PrivateKey",
        "urn": f"urn:pulumi:s::p::tls:index/privateKey:PrivateKey::{machine}-{kind}",
        "outputs": {"publicKeyOpenssh": f"key of {machine} {kind}\n"},
    }


STATE = {
    "deployment": {
        "resources": [
            host_key("demo-gateway"),
            host_key("demo-worker-0"),
            host_key("demo-worker-0", "one-time-host-key"),
        ]
    }
}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
    return main()


def test_the_list_shows_what_lives_and_says_what_does_not(
    fleet: Callable[[Mapping[str, str | None]], Path],
    api: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet({"live": api, "down": "https://127.0.0.1:1", "empty": None})
    assert run(monkeypatch, "list") == 1
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert list(rows) == ["NAME", "down", "empty", "live", "sealed"]
    assert "v1.36.3" in rows["live"]
    assert "1/2" in rows["live"]
    assert "failed 2026-11-22T03:04:05" in rows["live"]
    # Known from the state, also of a cluster that is down.
    assert "https://198.51.100.7:6443" in rows["down"]
    assert "10.8.0.0/22" in rows["down"]
    assert "down: its API does not answer" in err
    assert "empty: empty has no cluster: it never came up, or it was destroyed" in err
    assert "sealed: its state cannot be read" in err
    assert "incorrect passphrase" in err
    assert "live:" not in err


def test_the_list_is_data_too(
    fleet: Callable[[Mapping[str, str | None]], Path],
    api: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet({"live": api})
    assert run(monkeypatch, "list", "--output", "json") == 1
    [live, sealed] = json.loads(capsys.readouterr().out)
    assert (live["cluster_id"], live["nodes"], live["ready"]) == ("demo-1a2b3c4d", 2, 1)
    assert live["problem"] is None
    assert "incorrect passphrase" in sealed["problem"]


def test_contexts_are_called_like_the_stacks(
    fleet: Callable[[Mapping[str, str | None]], Path],
    api: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Both clusters have the same name.
    fleet({"a": api, "b": "https://127.0.0.1:1"})
    assert run(monkeypatch, "kubeconfig", "--all") == 1
    out, err = capsys.readouterr()
    assert "left out: " in err
    merged = yaml.safe_load(out)
    assert merged["current-context"] == "a"
    servers = {each["name"]: each["cluster"]["server"] for each in merged["clusters"]}
    assert servers == {"a": api, "b": "https://127.0.0.1:1"}
    assert [each["name"] for each in merged["users"]] == ["a", "b"]
    contexts = [each["context"] for each in merged["contexts"]]
    assert contexts == [{"cluster": name, "user": name} for name in "ab"]
    assert run(monkeypatch, "kubeconfig", "b") == 0
    assert yaml.safe_load(capsys.readouterr().out)["current-context"] == "b"


def test_ssh_verifies_the_jump_host_and_the_machine(
    fleet: Callable[[Mapping[str, str | None]], Path], api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fleet({"live": api})
    assert run(monkeypatch, "ssh", "live", "demo-worker-0", "uptime", "-p") == 7
    assert (folder / "asked").read_text() == "demo-worker-0 uptime -p\n"
    assert (folder / "mode").read_text() == "600\n"
    known = dict(line.split(" ", 1) for line in (folder / "known_hosts").read_text().splitlines())
    assert known["demo-worker-0"] == "key of demo-worker-0 host-key"
    assert known["entrance"] == known["demo-gateway-1"] == "key of demo-gateway host-key"
    config = (folder / "config").read_text()
    assert "Host demo-worker-0\nHostName 10.8.0.31\n" in config
    assert "Host demo-gateway-1\nHostName 198.51.100.7\nPort 2201\n" in config
    assert KEY not in config


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("demo-worker-9", "live has no machine demo-worker-9; it has demo-gateway-0, "),
        ("metal-0", "the state has no host key of metal-0, which existed before the cluster"),
    ],
)
def test_a_machine_that_cannot_be_reached_is_an_error(
    fleet: Callable[[Mapping[str, str | None]], Path],
    api: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: str,
    said: str,
) -> None:
    fleet({"live": api})
    assert run(monkeypatch, "ssh", "live", machine) == 1
    assert said in capsys.readouterr().err
