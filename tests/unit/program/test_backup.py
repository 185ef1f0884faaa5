"""The bucket of the backups, and the keys of what is in it."""

from __future__ import annotations

import re

from tests.unit.engine import CLUSTER_ID, Run, command, file_of, files, node_env, run
from tests.unit.program.settings import BUCKET


def test_control_planes_know_their_bucket_and_the_first_one_the_snapshot_to_restore() -> None:
    name = "demo-12345678/20261122T010000Z-demo-control-plane-1.db.gz"
    made = run(
        {"backup": {"bucket": BUCKET, "restore": name}, "backupSecretKey": "very-secret"},
        secret=["backupSecretKey"],
    )
    first, second = (command(made, f"demo-control-plane-{index}-configure") for index in range(2))
    bucket = dict(line.split("=", 1) for line in file_of(first, "bucket.env").splitlines())
    assert bucket["BUCKET_ENDPOINT"] == "https://object.example.org"
    assert bucket["BUCKET_SECRET_KEY"] == "very-secret"
    assert bucket["BUCKET_FOLDER"] == CLUSTER_ID
    assert node_env(first)["RESTORE"] == name
    assert "RESTORE" not in node_env(second)
    assert "very-secret" not in file_of(first, "node.env")
    # The other machines do not need it.
    for other in (
        "demo-worker-0-configure",
        "demo-gateway-0-configure",
        "demo-control-plane-0-membership",
    ):
        assert not {"bucket.env", "backup.key"} & files(command(made, other)).keys()


def test_control_planes_with_a_bucket_can_close_and_open_its_objects(fresh: Run) -> None:
    made = run(
        {"backup": {"bucket": BUCKET}, "backupSecretKey": "very-secret"}, secret=["backupSecretKey"]
    )
    certificate = made.one("SelfSignedCert", "demo-backup")
    assert certificate.inputs["allowedUses"] == ["key_agreement"]
    for index in range(3):
        folder = files(command(made, f"demo-control-plane-{index}-configure"))
        assert folder["backup.key"] == certificate.inputs["privateKeyPem"]
        assert folder["backup.crt"] == "demo-backup certificate\n"
    assert "backup.key" not in files(command(fresh, "demo-control-plane-0-configure"))


def test_another_generation_of_the_backup_key_closes_and_the_earlier_ones_still_open() -> None:
    made = run(
        {
            "backup": {"bucket": BUCKET},
            "backupSecretKey": "very-secret",
            "rotation": {"backupKey": 3},
        },
        secret=["backupSecretKey"],
    )
    folder = files(command(made, "demo-control-plane-0-configure"))
    assert folder["backup.crt"] == "demo-backup-3 certificate\n"
    keys = {name: text for name, text in folder.items() if re.fullmatch(r"backup.*\.key", name)}
    assert keys == {
        "backup.key": "demo-backup-3 privateKey Pem\n",
        "backup-1.key": "demo-backup privateKey Pem\n",
        "backup-2.key": "demo-backup-2 privateKey Pem\n",
    }
    certificates = [made.one("SelfSignedCert", f"demo-backup{end}") for end in ("", "-2", "-3")]
    assert all(each.protect for each in certificates)


def test_without_backups_there_is_no_timer(fresh: Run) -> None:
    assert node_env(command(fresh, "demo-control-plane-0-configure"))["BACKUP_HOURS"] == "6"
    none = run({"backup": {"enabled": False}})
    assert "BACKUP_HOURS" not in node_env(command(none, "demo-control-plane-0-configure"))
