"""The key that signs tokens, and its rotation."""

from __future__ import annotations

from tests.unit.engine import COMMAND, NODES, Run, command, file_of, files, run
from tests.unit.program.settings import ENCRYPTION_KEY, METAL_1

SERVICE_ACCOUNT_KEY = "demo-service-account-key"


def test_another_service_account_key_is_used_when_every_node_is_a_member() -> None:
    rotated = run(
        {
            "rotation": {"serviceAccountKey": 2, "encryptionKey": 2},
            "workerPools": [{"name": "metal", "machines": [{**METAL_1, "sshUser": "ada"}]}],
        },
        existing=NODES,
    )
    rotation = command(rotated, SERVICE_ACCOUNT_KEY)
    members = [*NODES, "metal-1"]
    for name in members:
        assert rotated.waits_for(rotation, command(rotated, f"{name}-join")), name
    assert rotated.waits_for(rotation, command(rotated, ENCRYPTION_KEY))
    sent = files(rotation)
    assert [line.split()[0] for line in sent["nodes"].splitlines()] == members
    assert sent["nodes"].splitlines()[-1] == "metal-1 worker ada 10.8.0.200"
    assert [line.split()[-1] for line in sent["nodes"].splitlines()] == [
        line.split()[0] for line in sent["known_hosts"].splitlines()
    ]
    assert sent["service-account.pub"] == "demo-service-account-2 publicKey Pem\n"
    control_planes = [name for name in NODES if "control-plane" in name]
    assert rotation.inputs["triggers"] == [f"{name}-id" for name in control_planes]
    # No private key passes a gateway.
    assert not any("privateKey Pem" in text for text in sent.values())
    configure = command(rotated, "demo-control-plane-0-configure")
    assert file_of(configure, "service-account/1.key") == "demo-service-account privateKey Pem\n"
    assert file_of(configure, "service-account/2.key") == "demo-service-account-2 privateKey Pem\n"
    protection = rotated.one("Stash", "demo-deletion-protection")
    assert rotated.waits_for(protection, rotation)


def test_without_another_service_account_key_nothing_rotates(fresh: Run) -> None:
    assert SERVICE_ACCOUNT_KEY not in fresh.all(COMMAND)
    assert "demo-service-account-2" not in fresh.all("PrivateKey")
