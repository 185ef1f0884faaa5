"""restore.sh: a cluster begins with a snapshot."""

from __future__ import annotations

import gzip
import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.scripts.conftest import BACKUP_FOLDER, MAKE_BACKUP_KEY, STORE, Machine
from tests.scripts.control_plane.conftest import (
    DB,
    MINE,
    READY,
    SNAPSHOT,
    STATE,
    TIMER,
    UNSERVED,
    configure,
    member,
    others,
    restored,
    set_aside,
    with_bucket,
    with_etcdutl,
    with_snapshot,
)


def test_snapshots_are_taken_by_a_timer(make: Callable[..., Machine]) -> None:
    machine = make(BACKUP_HOURS="6")
    assert configure(machine).status == 0
    assert "OnUnitActiveSec=6h" in machine.read(TIMER)
    assert machine.called("systemctl restart -- openstack-kubernetes-backup.timer")


def test_its_timer_proves_snapshots(make: Callable[..., Machine]) -> None:
    machine = make(BACKUP_HOURS="6")
    assert configure(machine).status == 0
    assert machine.called("systemctl restart -- openstack-kubernetes-backup-proof.timer")
    service = machine.read("etc/systemd/system/openstack-kubernetes-backup-proof.service")
    assert "current/backup/backup.sh prove\n" in service


def test_the_keys_of_backups_stay_on_the_machine_for_root_only(
    make: Callable[..., Machine],
) -> None:
    machine = with_bucket(make(BACKUP_HOURS="6"))
    keys = ("backup.crt", "backup.key", "backup-1.key")
    for name in keys:
        machine.write(name, f"{name}\n")
    assert configure(machine).status == 0
    for name in keys:
        kept = machine.root / f"etc/openstack-kubernetes/{name}"
        assert kept.read_text() == f"{name}\n"
        assert kept.stat().st_mode & 0o777 == 0o600
    assert machine.run("control-plane/control-plane.sh", "reset").status == 0
    assert not list((machine.root / "etc/openstack-kubernetes").glob("backup*"))


def test_a_member_learns_of_a_new_bucket_and_of_none(make: Callable[..., Machine]) -> None:
    machine = with_bucket(member(make(BACKUP_HOURS="6")))
    assert configure(machine).status == 0
    kept = machine.root / "etc/openstack-kubernetes/bucket.env"
    assert kept.stat().st_mode & 0o777 == 0o600
    (machine.folder / "bucket.env").unlink()
    assert configure(machine).status == 0
    assert not kept.exists()


def test_a_member_does_not_take_a_bucket_that_it_cannot_list(make: Callable[..., Machine]) -> None:
    machine = with_bucket(member(make(BACKUP_HOURS="6")), status="403")
    for _ in range(2):
        result = configure(machine)
        assert result.status == 1
        assert "the bucket backups at https://object.example.org cannot be listed" in result.log
        assert not machine.called("install all")


def test_a_member_is_repaired_while_its_bucket_is_down(make: Callable[..., Machine]) -> None:
    machine = with_bucket(member(make(BACKUP_HOURS="6")))
    assert configure(machine).status == 0
    with_bucket(machine, status="503")
    assert configure(machine).status == 0


def test_snapshots_that_are_not_wanted_end(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.place(TIMER)
    assert configure(machine).status == 0
    assert machine.called("disable --now -- openstack-kubernetes-backup.timer")
    assert not machine.has(TIMER)


def test_no_one_begins_empty_where_there_are_backups(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make(), SNAPSHOT)
    result = configure(machine)
    assert result.status == 1
    assert f"pulumi config set --path backup.restore {SNAPSHOT}, then pulumi up" in result.log
    assert not machine.called("kubeadm init --config")


def test_no_one_begins_empty_where_the_bucket_cannot_be_listed(
    make: Callable[..., Machine],
) -> None:
    machine = with_bucket(make(), status="403")
    result = configure(machine)
    assert result.status == 1
    assert "the bucket backups at https://object.example.org cannot be listed" in result.log
    assert not machine.called("kubeadm init --config")


def test_one_that_joins_does_not_look_for_backups(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make(RESTORE=SNAPSHOT), SNAPSHOT)
    others(machine, a22=READY)
    assert configure(machine).status == 0
    assert machine.called("kubeadm join")
    assert not machine.called("object.example.org")


def test_an_abandoned_restore_leaves_nothing_in_kubeadms_way(
    make: Callable[..., Machine],
) -> None:
    machine = with_bucket(make())
    machine.place("var/lib/etcd/.restore/snapshot.gz")
    assert configure(machine).status == 0
    assert not machine.has("var/lib/etcd/.restore")


def test_an_empty_bucket_is_a_new_cluster(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make())
    assert configure(machine).status == 0
    assert machine.called("kubeadm init --config")


def test_a_cluster_begins_with_the_snapshot(make: Callable[..., Machine]) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    result = configure(machine)
    assert result.status == 0, result
    assert machine.read("var/lib/etcd/member/snap/db") == "restored"
    command = json.loads((machine.fakes / "container").read_text())["command"]
    assert command[:4] == ["/usr/local/bin/etcdutl", "snapshot", "restore", "/restore/snapshot"]
    assert f"--initial-cluster=demo-control-plane-0=https://{MINE}:2380" in command
    assert command[-1] == "--mark-compacted"
    machine.order("crictl run", "crictl rmp --force pod-id", "kubeadm init --config")
    assert not machine.called("crictl pull")
    assert "DirAvailable--var-lib-etcd" in machine.called("kubeadm init --config")[0]
    # What the snapshot knows of control planes are machines that are gone.
    machine.order(
        "kubeadm init --config",
        "delete node --selector=node-role.kubernetes.io/control-plane",
        "systemctl restart kubelet",
        "mark-control-plane",
    )
    assert [path.name for path in (machine.root / "var/lib/etcd").iterdir()] == ["member"]
    assert not machine.has(UNSERVED)
    assert not machine.has(f"{STATE}/restoring")
    assert machine.called(f"--upload-file {machine.root}/{STATE}/restoring ")[0].endswith(
        f"/restored/{SNAPSHOT}"
    )


@pytest.mark.parametrize("revision", [0, 1234, 1_700_000_000_000_321])
def test_a_restore_raises_the_revision_to_the_time(
    make: Callable[..., Machine], revision: int
) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    with_etcdutl(machine, revision)
    before = int(time.time())
    assert configure(machine).status == 0
    # An older snapshot that is restored after a newer one does not go back.
    assert before <= (bumped(machine) + revision) / 1_000_000 <= time.time()


def test_a_revision_that_is_later_than_the_time_is_raised_too(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    with_etcdutl(machine, 9_000_000_000_000_000)
    assert configure(machine).status == 0
    assert bumped(machine) > 1_700_000_000_000_000


def bumped(machine: Machine) -> int:
    """The amount by which the restore has raised the revision."""
    [option] = [
        word
        for word in json.loads((machine.fakes / "container").read_text())["command"]
        if word.startswith("--bump-revision=")
    ]
    return int(option.removeprefix("--bump-revision="))


def test_a_snapshot_whose_revision_is_unknown_is_not_restored(
    make: Callable[..., Machine],
) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    machine.answer("^crictl run ", "container-id\n")
    machine.place(DB, "the only copy")
    result = configure(machine)
    assert result.status == 1
    assert f"etcdutl does not say at which revision {SNAPSHOT} is" in result.log
    assert machine.read(DB) == "the only copy"


ENCRYPTED = f"{SNAPSHOT}.cms.tar"


def with_encrypted_snapshot(machine: Machine) -> Machine:
    """The bucket has ENCRYPTED, which this machine can open."""
    with_snapshot(machine)
    machine.encrypts()
    snapshot = machine.fakes / "snapshot.gz"
    snapshot.write_bytes(gzip.compress(b"the data"))
    made = machine.lib(
        f'source "$HERE/backup/encryption.sh"; encrypt_snapshot {snapshot} {machine.fakes}/object'
    )
    assert made.status == 0, made
    machine.answer(
        f"^curl .*backups/{ENCRYPTED}",
        "200",
        does="import shutil\n"
        "shutil.copy(here + '/object', sys.argv[sys.argv.index('--output') + 1])",
    )
    return machine


def test_an_encrypted_snapshot_is_opened(make: Callable[..., Machine]) -> None:
    machine = restored(with_encrypted_snapshot(make(RESTORE=ENCRYPTED)))
    result = configure(machine)
    assert result.status == 0, result
    assert (machine.fakes / "snapshot").read_bytes() == b"the data"
    assert machine.read(DB) == "restored"


def rotate_backup_key(machine: Machine) -> None:
    """As with `rotation.backupKey`: another key, and the earlier one under another name."""
    (machine.folder / "backup.key").rename(machine.folder / "backup-1.key")
    subprocess.run(MAKE_BACKUP_KEY, cwd=machine.folder, capture_output=True, check=True)


def test_a_snapshot_of_an_earlier_key_is_opened(make: Callable[..., Machine]) -> None:
    machine = restored(with_encrypted_snapshot(make(RESTORE=ENCRYPTED)))
    rotate_backup_key(machine)
    result = configure(machine)
    assert result.status == 0, result
    assert "backup.key does not open" in result.log
    assert (machine.fakes / "snapshot").read_bytes() == b"the data"
    kept = machine.root / "etc/openstack-kubernetes/backup-1.key"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_key_of_backups_does_not_go_back(make: Callable[..., Machine]) -> None:
    machine = member(with_bucket(make(BACKUP_HOURS="6")))
    machine.write("backup.key", "the second\n")
    machine.write("backup-1.key", "the first\n")
    assert configure(machine).status == 0
    machine.write("backup.key", "the first\n")
    (machine.folder / "backup-1.key").unlink()
    result = configure(machine)
    assert result.status == 1
    assert "rotation.backupKey must never go back" in result.log
    assert machine.read("etc/openstack-kubernetes/backup.key") == "the second\n"


def test_an_earlier_key_does_not_open_what_is_taken_after_a_rotation(
    make: Callable[..., Machine],
) -> None:
    machine = make(RESTORE=ENCRYPTED)
    machine.encrypts()
    leaked = (machine.folder / "backup.key").read_text()
    (machine.fakes / "openssl").symlink_to("fake")
    rotated = with_encrypted_snapshot(machine)
    rotated.write("backup.key", leaked)
    result = configure(rotated)
    assert result.status == 1
    assert f"{ENCRYPTED} is damaged or not encrypted for the key of this cluster" in result.log


def test_a_snapshot_that_is_encrypted_for_another_key_is_named(
    make: Callable[..., Machine],
) -> None:
    machine = with_encrypted_snapshot(make(RESTORE=ENCRYPTED))
    subprocess.run(MAKE_BACKUP_KEY, cwd=machine.folder, capture_output=True, check=True)
    result = configure(machine)
    assert result.status == 1
    assert f"{ENCRYPTED} is damaged or not encrypted for the key of this cluster" in result.log
    assert not machine.called("crictl run")


def test_the_same_snapshot_is_not_restored_by_a_forgotten_setting(
    make: Callable[..., Machine],
) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    answer = f"<Key>restored/{SNAPSHOT}</Key>"
    machine.answer("prefix=restored", does=STORE.format(answer=answer, status="200"))
    result = configure(machine)
    assert result.status == 1
    assert f"this cluster has begun with {SNAPSHOT} already: remove backup.restore" in result.log
    assert not machine.called("kubeadm init --config")


def test_a_snapshot_of_another_cluster_is_refused(make: Callable[..., Machine]) -> None:
    machine = with_snapshot(
        make(RESTORE="demo-00000000/20261122T010000Z-demo-control-plane-1.db.gz")
    )
    result = configure(machine)
    assert result.status == 1
    assert f"does not belong to this cluster, whose backups are in {BACKUP_FOLDER}/" in result.log
    assert not machine.called("kubeadm init --config")


def test_a_restore_that_fails_before_its_nodes_are_deleted_continues_there(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    machine.answer("delete node --selector", status=1)
    machine.does_not_wait("control-plane/restore.sh", 60)
    assert configure(machine).status == 1
    assert not machine.has(f"{STATE}/member")
    machine.answer("delete node --selector")
    machine.place(f"{STATE}/served")
    assert configure(machine).status == 0
    assert machine.called("delete node --selector")
    assert not machine.has(f"{STATE}/restoring")


def test_a_failed_restore_does_not_open_the_door_for_a_later_one(
    make: Callable[..., Machine],
) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    machine.place(f"{STATE}/restoring")
    others(machine, a22=READY)
    assert configure(machine).status == 0
    assert machine.called("kubeadm join")
    assert not machine.has(f"{STATE}/restoring")


def test_an_interrupted_restore_begins_again(make: Callable[..., Machine]) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    machine.place(f"{STATE}/restoring")
    machine.place(UNSERVED)
    machine.place("var/lib/etcd/member/snap/db", "half")
    machine.place("var/lib/etcd/.restore/snapshot", "half")
    assert configure(machine).status == 0
    assert machine.read("var/lib/etcd/member/snap/db") == "restored"
    assert not set_aside(machine)


def test_a_restore_whose_api_was_up_does_not_begin_again(make: Callable[..., Machine]) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    machine.place(f"{STATE}/restoring")
    machine.place(f"{STATE}/attempt", "init\n")
    machine.place(f"{STATE}/served")
    machine.place("var/lib/etcd/member/snap/db", "newer")
    assert configure(machine).status == 0
    assert machine.read("var/lib/etcd/member/snap/db") == "newer"
    assert machine.called("delete node --selector=node-role.kubernetes.io/control-plane")
    assert not machine.has(f"{STATE}/restoring")


def interrupted_restore(make: Callable[..., Machine]) -> Machine:
    """A restore of SNAPSHOT whose API was up when its run failed."""
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    machine.answer("delete node --selector", status=1)
    machine.does_not_wait("control-plane/restore.sh", 60)
    assert configure(machine).status == 1
    machine.answer("delete node --selector")
    machine.place(f"{STATE}/served")
    return machine


@pytest.mark.parametrize("newer", [f"{BACKUP_FOLDER}/20261123T010000Z-demo.db.gz", ""])
def test_what_was_restored_is_noted_whatever_the_configuration_names_when_that_ends(
    make: Callable[..., Machine], newer: str
) -> None:
    machine = interrupted_restore(make)
    text = (machine.folder / "node.env").read_text()
    assert SNAPSHOT in text
    machine.write("node.env", text.replace(SNAPSHOT, newer))
    assert configure(machine).status == 0
    assert machine.called(f"restored/{SNAPSHOT}")
    assert not newer or not machine.called(f"restored/{newer}")
