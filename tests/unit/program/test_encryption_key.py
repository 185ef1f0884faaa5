"""The key of Secrets at rest, and its rotation."""

from __future__ import annotations

import pytest
import yaml

from tests.unit.engine import COMMAND, NODES, SMALL, Run, command, file_of, files, node_env, run
from tests.unit.program.settings import ENCRYPTION_KEY


def test_control_planes_can_read_encrypted_secrets_even_without_encryption() -> None:
    for encrypt, first in ((True, "secretbox"), (False, "identity")):
        made = run({**SMALL, "encryptionAtRest": encrypt})
        configure = command(made, "demo-control-plane-0-configure")
        document = yaml.safe_load(file_of(configure, "encryption.yaml"))
        assert list(document["resources"][0]["providers"][0]) == [first]


@pytest.mark.parametrize(
    ("encrypt", "providers"), [(True, "'key03 identity'"), (False, "'identity key03'")]
)
def test_another_generation_of_the_encryption_key_is_used_when_every_control_plane_has_it(
    encrypt: bool, providers: str
) -> None:
    rotated = run({"rotation": {"encryptionKey": 3}, "encryptionAtRest": encrypt}, existing=NODES)
    rotation = command(rotated, ENCRYPTION_KEY)
    settings = node_env(rotation)
    assert settings["ENCRYPTION"] == providers
    assert settings["CONTROL_PLANES"] == "'10.8.0.21 10.8.0.22 10.8.0.23'"
    hosts = file_of(rotation, "known_hosts").splitlines()
    assert [line.split()[0] for line in hosts] == ["10.8.0.21", "10.8.0.22", "10.8.0.23"]
    control_planes = [name for name in NODES if "control-plane" in name]
    # A snapshot of an earlier generation may come back with a new machine.
    assert rotation.inputs["triggers"] == [f"{name}-id" for name in control_planes]
    # No key passes a gateway.
    assert not any("bytes" in text for text in files(rotation).values())
    for name in control_planes:
        assert rotated.waits_for(rotation, command(rotated, f"{name}-join"))
        sent = file_of(command(rotated, f"{name}-configure"), "encryption.yaml")
        assert all(f"demo-encryption{end} bytes" in sent for end in ("", "-2", "-3"))


def test_the_key_of_a_first_generation_is_as_it_was(fresh: Run) -> None:
    assert set(fresh.all("RandomBytes")) == {"demo-encryption"}
    assert ENCRYPTION_KEY not in fresh.all(COMMAND)
    rotated = run({"rotation": {"encryptionKey": 2}})
    assert set(rotated.all("RandomBytes")) == {"demo-encryption", "demo-encryption-2"}
    assert all(each.protect for each in rotated.all("RandomBytes").values())
