"""The SSH key of the machines, and its rotation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from pulumi.runtime.mocks import MockResourceArgs

from config.errors import ConfigError
from tests.unit.engine import (
    COMMAND,
    GATEWAYS,
    NODES,
    SERVER,
    Cloud,
    Run,
    command,
    file_of,
    run,
    server,
)
from tests.unit.program.settings import LOCAL, METAL_1, SSH_KEY
from tests.unit.ssh_keys import new_key, public_of, text

NEW, OLD = text(new_key()), text(new_key())
OWN = {"sshPrivateKey": NEW, "previousSshPrivateKey": OLD}


def test_a_users_own_ssh_key_ends_with_the_newline_that_ssh_needs() -> None:
    own = run({"sshPrivateKey": NEW.strip()}, secret=["sshPrivateKey"])
    assert file_of(command(own, "demo-worker-0-membership"), "ssh_key") == NEW


ROTATED: dict[str, object] = {
    "rotation": {"sshKey": 2, "serviceAccountKey": 2},
    "workerPools": [{"name": "metal", "machines": [METAL_1]}],
}
MACHINES = [*GATEWAYS, *NODES, "metal-1"]


def test_machines_accept_another_ssh_key_before_and_no_other_one_after_everything() -> None:
    rotated = run(ROTATED, existing=[*GATEWAYS, *NODES], ssh_key=SSH_KEY[0])
    for name in MACHINES:
        accept = rotated.one(LOCAL, f"{name}-ssh-key")
        only = rotated.one(LOCAL, f"{name}-only-ssh-key")
        settings = accept.inputs["environment"]
        assert json.loads(settings["KEYS"]) == SSH_KEY[::-1]
        assert json.loads(settings["ACCEPT"]) == [
            "demo-ssh-2 publicKey Openssh",
            "demo-ssh publicKey Openssh",
        ]
        assert json.loads(only.inputs["environment"]["RETIRE"]) == ["demo-ssh publicKey Openssh"]
        machine = json.loads(settings["MACHINE"])
        assert machine["name"] == name
        assert (machine["via"] is None) == (name in GATEWAYS)
        assert rotated.waits_for(command(rotated, f"{name}-configure"), accept)
        if name != "metal-1":
            assert rotated.waits_for(accept, command(rotated, f"{name}-host-key"))
        if name not in GATEWAYS:
            for gateway in GATEWAYS:
                assert rotated.waits_for(accept, command(rotated, f"{gateway}-configure"))
        for other in rotated.all(COMMAND).values():
            assert rotated.waits_for(only, other), (name, other.name)


def test_a_machine_of_after_the_rotation_accepts_the_newest_ssh_key_only() -> None:
    rotated = run(ROTATED, existing=[*GATEWAYS, *NODES], ssh_key=SSH_KEY[1])
    for name in MACHINES:
        settings = rotated.one(LOCAL, f"{name}-ssh-key").inputs["environment"]
        assert json.loads(settings["ACCEPT"]) == ["demo-ssh-2 publicKey Openssh"]


def test_the_first_connection_uses_the_ssh_key_that_the_server_was_created_with() -> None:
    rotated = run(ROTATED)
    for name in (*GATEWAYS, *NODES):
        assert server(rotated, name).inputs["metadata"]["sshKey"] == "2"
        first = command(rotated, f"{name}-host-key").inputs["connection"]
        assert first["privateKey"] == SSH_KEY[1]
        assert "demo-ssh-2 publicKey" in server(rotated, name).inputs["userData"]


def test_a_users_own_ssh_key_may_follow_a_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cloud.new_resource

    def of_the_second_generation(
        cloud: Cloud, args: MockResourceArgs
    ) -> tuple[str, dict[str, object]]:
        name, state = made(cloud, args)
        if args.typ.endswith(SERVER):
            state["metadata"] = {**state["metadata"], "sshKey": "2"}
        return name, state

    monkeypatch.setattr(Cloud, "new_resource", of_the_second_generation)
    own = run({"sshPrivateKey": NEW}, secret=["sshPrivateKey"], existing=NODES, ssh_key=NEW)
    first = command(own, "demo-worker-0-host-key").inputs["connection"]
    assert first["privateKey"] == NEW


@pytest.mark.parametrize("preview", [False, True])
def test_an_older_ssh_key_is_not_retired_while_machines_leave(
    warnings: list[str], *, preview: bool
) -> None:
    leaving = [*GATEWAYS, *NODES, "demo-worker-2"]
    rotated = run(ROTATED, existing=leaving, ssh_key=SSH_KEY[0], preview=preview)
    [warning] = warnings
    assert warning.startswith("the SSH key: ")
    assert "needed until demo-worker-2 has left, at the end. Run pulumi up once" in warning
    assert rotated.outputs["sshPrivateKey"] == SSH_KEY[0]
    following = run(ROTATED, existing=leaving[:-1], ssh_key=SSH_KEY[0], preview=preview)
    assert len(warnings) == 1
    assert following.outputs["sshPrivateKey"] == SSH_KEY[1]
    for name in MACHINES:
        accept = rotated.one(LOCAL, f"{name}-ssh-key")
        assert len(json.loads(accept.inputs["environment"]["ACCEPT"])) == 2
        assert (
            following.one(LOCAL, f"{name}-ssh-key").inputs["triggers"] == accept.inputs["triggers"]
        )
        before, after = (each.one(LOCAL, f"{name}-only-ssh-key") for each in (rotated, following))
        assert json.loads(before.inputs["environment"]["RETIRE"]) == []
        assert json.loads(after.inputs["environment"]["RETIRE"]) == ["demo-ssh publicKey Openssh"]
        # So it runs.
        assert before.inputs["triggers"] != after.inputs["triggers"]


def test_machines_leave_when_the_rotation_of_the_ssh_key_is_done(warnings: list[str]) -> None:
    left = run(ROTATED, existing=[*GATEWAYS, *NODES, "demo-worker-2"], ssh_key=SSH_KEY[1])
    assert not warnings
    assert left.outputs["sshPrivateKey"] == SSH_KEY[1]


def test_a_users_own_ssh_key_has_no_generations() -> None:
    own = {"sshPrivateKey": NEW}
    with pytest.raises(ConfigError, match=r"rotation\.sshKey = 2: sshPrivateKey is your own"):
        run({**own, "rotation": {"sshKey": 2}}, secret=own)


def test_machines_accept_another_key_of_the_user_before_and_no_other_one_after() -> None:
    machines = [*GATEWAYS, *NODES]
    rotated = run(OWN, secret=OWN, existing=machines, ssh_key=OLD)
    for name in machines:
        accept = rotated.one(LOCAL, f"{name}-ssh-key").inputs["environment"]
        assert json.loads(accept["KEYS"]) == [NEW, OLD]
        assert json.loads(accept["ACCEPT"]) == [public_of(NEW), public_of(OLD)]
        only = rotated.one(LOCAL, f"{name}-only-ssh-key").inputs["environment"]
        assert json.loads(only["RETIRE"]) == [public_of(OLD)]
        assert command(rotated, f"{name}-configure").inputs["connection"]["privateKey"] == NEW
    assert run(OWN, secret=OWN, existing=machines, ssh_key=OLD, preview=True).resources
    # The next preview refuses OLD's absence until nothing accepts it.
    leaving = run(OWN, secret=OWN, existing=[*machines, "demo-worker-2"], ssh_key=OLD)
    assert leaving.outputs["sshPrivateKey"] == OLD


def test_two_texts_of_one_key_of_the_user_are_not_taken_from_machines() -> None:
    one = new_key()
    pem = text(one, serialization.PrivateFormat.PKCS8)
    same = {"sshPrivateKey": text(one), "previousSshPrivateKey": pem}
    rotated = run(same, secret=same, existing=NODES, ssh_key=pem)
    only = rotated.one(LOCAL, "demo-worker-0-only-ssh-key").inputs["environment"]
    assert json.loads(only["RETIRE"]) == []


def test_an_ssh_key_of_any_generation_is_no_stranger_at_preview() -> None:
    for key in SSH_KEY:
        assert run(ROTATED, existing=NODES, ssh_key=key, preview=True).resources


def test_without_another_ssh_key_nothing_rotates(fresh: Run) -> None:
    assert not any(name.endswith("-ssh-key") for name in fresh.all(LOCAL))
    assert "sshKey" not in server(fresh, "demo-worker-0").inputs["metadata"]


def test_a_preview_says_that_machines_leave_while_the_new_key_is_not_made_yet(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    made = Cloud.new_resource

    def unknown_until_made(cloud: Cloud, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        name, state = made(cloud, args)
        if args.name == "demo-ssh-2":
            state = {key: value for key, value in state.items() if "Key" not in key}
        return name, state

    monkeypatch.setattr(Cloud, "new_resource", unknown_until_made)
    leaving = [*GATEWAYS, *NODES, "demo-worker-2"]
    assert run(ROTATED, existing=leaving, ssh_key=SSH_KEY[0], preview=True).resources
    assert len(warnings) == 1
    assert run(ROTATED, existing=leaving[:-1], ssh_key=SSH_KEY[0], preview=True).resources
    assert len(warnings) == 1
