"""The SSH host keys of servers: how the program knows them, and their rotation."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Mapping

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from pulumi.runtime.mocks import MockResourceArgs

from config.errors import ConfigError
from tests.unit.engine import (
    COMMAND,
    GATEWAYS,
    NODES,
    SERVER,
    Cloud,
    Recorded,
    Run,
    command,
    file_of,
    run,
)
from tests.unit.program.settings import LOCAL, METAL_1, SSH_KEY


def test_user_data_contains_no_key_but_the_one_time_host_key(fresh: Run) -> None:
    for name, each in fresh.all(SERVER).items():
        keys = [line for line in each.inputs["userData"].splitlines() if "privateKey" in line]
        assert not keys, name
        assert yaml.safe_load(each.inputs["userData"])["ssh_keys"].keys() == {
            "ed25519_private",
            "ed25519_public",
        }
        assert (name, "userData") in fresh.secret_inputs


def one_time_host_key(of: Recorded) -> str:
    """The public half of the key with which a server boots, if it fits the private one."""
    keys: dict[str, str] = yaml.safe_load(of.inputs["userData"])["ssh_keys"]
    private = serialization.load_ssh_private_key(keys["ed25519_private"].encode(), None)
    openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    assert private.public_key().public_bytes(*openssh).decode() == keys["ed25519_public"]
    return keys["ed25519_public"]


def test_no_two_servers_boot_with_the_same_host_key_and_no_replacement_either(fresh: Run) -> None:
    first, second = (
        [one_time_host_key(each) for each in made.all(SERVER).values()] for made in (fresh, run())
    )
    assert len(first) == len(GATEWAYS) + len(NODES)
    assert len({*first, *second}) == len(first) + len(second)


def test_the_first_connection_asks_for_the_key_that_this_server_booted_with(updated: Run) -> None:
    for name, made in updated.all(SERVER).items():
        # Otherwise each update would replace the server, or change it.
        assert {"userData", "metadata.oneTimeHostKey"} <= set(made.ignore_changes)
        expected = f"{name} had it" if name in NODES else one_time_host_key(made)
        asked = command(updated, f"{name}-host-key").inputs["connection"]["hostKey"]
        assert asked == expected, name


def test_a_server_that_never_said_its_key_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Cloud.new_resource

    def without_metadata(cloud: Cloud, args: MockResourceArgs) -> tuple[str, dict[str, object]]:
        made, state = answer(cloud, args)
        return made, {**state, "metadata": {}} if args.typ.endswith(SERVER) else state

    monkeypatch.setattr(Cloud, "new_resource", without_metadata)
    earlier = run()
    for name in earlier.all(SERVER):
        assert command(earlier, f"{name}-host-key").inputs["connection"]["hostKey"], name


NEW_HOST_KEYS: dict[str, object] = {
    "rotation": {"hostKeys": 2},
    "workerPools": [{"name": "metal", "machines": [METAL_1]}],
}
SERVERS = [*GATEWAYS, *NODES]


def host_key_of(name: str, generation: int, part: str = "publicKey") -> str:
    """A host key as the mocks name it; the gateways share one."""
    owner = "demo-gateway" if name in GATEWAYS else name
    number = "" if generation == 1 else f"-{generation}"
    return f"{owner}-host-key{number} {part} Openssh\n"


def folder_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The host keys in the folder that a login's command sends."""
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(environment["FOLDER"]))) as tar:
        opened = {name: tar.extractfile(name) for name in tar.getnames() if "host_key" in name}
        return {name: file.read().decode() for name, file in opened.items() if file}


def test_servers_show_another_host_key_before_and_no_older_one_after_everything() -> None:
    rotated = run(NEW_HOST_KEYS, existing=SERVERS)
    for name in SERVERS:
        show = rotated.one(LOCAL, f"{name}-show-host-key")
        only = rotated.one(LOCAL, f"{name}-only-host-key")
        settings = show.inputs["environment"]
        machine = json.loads(settings["MACHINE"])
        assert machine["host_key"] == host_key_of(name, 2)
        assert (machine["via"] is None) == (name in GATEWAYS)
        assert machine["via"] is None or machine["via"]["host_key"] == host_key_of(GATEWAYS[0], 2)
        assert json.loads(settings["OLDER"]) == [host_key_of(name, 1)]
        newest = {
            "host_key": host_key_of(name, 2, "privateKey"),
            "host_key.pub": host_key_of(name, 2),
        }
        assert folder_of(settings) == newest | {
            "older_host_key": host_key_of(name, 1, "privateKey"),
            "older_host_key.pub": host_key_of(name, 1),
        }
        assert json.loads(only.inputs["environment"]["OLDER"]) == [host_key_of(name, 1)]
        assert folder_of(only.inputs["environment"]) == newest
        assert rotated.waits_for(show, command(rotated, f"{name}-host-key"))
        assert rotated.waits_for(command(rotated, f"{name}-configure"), show)
        if name not in GATEWAYS:
            for gateway in GATEWAYS:
                assert rotated.waits_for(show, command(rotated, f"{gateway}-configure"))
        for other in rotated.all(COMMAND).values():
            assert rotated.waits_for(only, other), (name, other.name)
    # That of an existing machine is its own.
    assert not any("metal" in name and "host-key" in name for name in rotated.all(LOCAL))
    assert rotated.outputs["hostKeys"] == 2


def test_each_connection_asks_for_the_newest_host_key_but_the_first_one() -> None:
    rotated = run(NEW_HOST_KEYS, existing=SERVERS)
    for name, each in rotated.all(COMMAND).items():
        to = each.inputs["connection"]
        first = name.endswith("-host-key")
        ends = [to["proxy"]] if "proxy" in to else []
        ends += [] if first or name == "metal-1-configure" else [to]
        assert all("-host-key-2 publicKey" in end["hostKey"] for end in ends), name
        if first:
            machine = name.removesuffix("-host-key")
            assert file_of(each, "host_key") == host_key_of(machine, 2, "privateKey")
        if name.endswith("-membership") and name != "metal-1-membership":
            assert "-host-key-2 publicKey" in file_of(each, "known_hosts")


def test_generations_of_host_keys_next_to_each_other_are_of_different_curves() -> None:
    rotated = run({"rotation": {"hostKeys": 3}}, existing=SERVERS, host_keys=2)
    keys = rotated.all("PrivateKey")
    for owner in ("demo-gateway", *NODES):
        names = [f"{owner}-host-key", f"{owner}-host-key-2", f"{owner}-host-key-3"]
        assert [keys[name].inputs["ecdsaCurve"] for name in names] == ["P256", "P384", "P256"]


def test_a_server_of_after_the_rotation_shows_the_newest_host_key_only() -> None:
    rotated = run(NEW_HOST_KEYS, existing=SERVERS, host_keys=2)
    for name in SERVERS:
        settings = rotated.one(LOCAL, f"{name}-show-host-key").inputs["environment"]
        assert json.loads(settings["OLDER"]) == []
        assert set(folder_of(settings)) == {"host_key", "host_key.pub"}


@pytest.mark.parametrize(
    ("number", "shown", "said"),
    [
        (1, 2, "it must never go back; set it to 2 or more"),
        (3, 1, "the servers show 1: set it to 2 and run pulumi up first"),
    ],
)
def test_a_number_that_the_host_keys_cannot_follow_is_refused(
    number: int, shown: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"rotation\.hostKeys = {number}: {said}"):
        run({"rotation": {"hostKeys": number}}, existing=SERVERS, host_keys=shown)


def test_an_older_host_key_is_shown_while_machines_leave(warnings: list[str]) -> None:
    leaving = [*SERVERS, "demo-worker-2"]
    rotated = run(NEW_HOST_KEYS, existing=leaving, host_keys=1)
    [warning] = warnings
    assert warning.startswith("the SSH host keys: ")
    assert "needed until demo-worker-2 has left, at the end. Run pulumi up once" in warning
    assert rotated.outputs["hostKeys"] == 1
    following = run(NEW_HOST_KEYS, existing=SERVERS, host_keys=1)
    assert following.outputs["hostKeys"] == 2
    for name in SERVERS:
        show = rotated.one(LOCAL, f"{name}-show-host-key")
        assert len(json.loads(show.inputs["environment"]["OLDER"])) == 1
        assert (
            following.one(LOCAL, f"{name}-show-host-key").inputs["triggers"]
            == show.inputs["triggers"]
        )
        before, after = (each.one(LOCAL, f"{name}-only-host-key") for each in (rotated, following))
        assert json.loads(before.inputs["environment"]["OLDER"]) == []
        assert len(json.loads(after.inputs["environment"]["OLDER"])) == 1
        assert before.inputs["triggers"] != after.inputs["triggers"]


def test_machines_leave_when_the_rotation_of_host_keys_is_done(warnings: list[str]) -> None:
    assert run(NEW_HOST_KEYS, existing=[*SERVERS, "demo-worker-2"], host_keys=2).resources
    assert not warnings


def test_both_ssh_and_host_keys_can_change_in_one_update() -> None:
    rotation = {"rotation": {"hostKeys": 2, "sshKey": 2}}
    rotated = run(rotation, existing=SERVERS, ssh_key=SSH_KEY[0])
    for name in SERVERS:
        show = rotated.one(LOCAL, f"{name}-show-host-key")
        assert json.loads(show.inputs["environment"]["KEYS"]) == SSH_KEY[::-1]
        assert rotated.waits_for(rotated.one(LOCAL, f"{name}-ssh-key"), show)


def test_without_another_host_key_nothing_rotates(fresh: Run) -> None:
    assert not any(name.endswith("-host-key") for name in fresh.all(LOCAL))
    keys = {name for name in fresh.all("PrivateKey") if "host-key" in name}
    assert keys == {"demo-gateway-host-key", *(f"{name}-host-key" for name in NODES)}
    assert all(fresh.one("PrivateKey", name).inputs["ecdsaCurve"] == "P256" for name in keys)
    assert fresh.outputs["hostKeys"] == 1


def test_every_connection_checks_the_host_key(fresh: Run) -> None:
    for each in fresh.all(COMMAND).values():
        connection = each.inputs["connection"]
        assert connection["hostKey"]
        assert "proxy" not in connection or connection["proxy"]["hostKey"]
