"""adopt.sh: a cluster continues from the etcd data that a machine still has."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.scripts.conftest import STORE, Machine
from tests.scripts.control_plane.conftest import (
    ADOPTED,
    DB,
    LISTENING,
    MINE,
    SNAPSHOT,
    STATE,
    UNSERVED,
    adopt,
    configure,
    member,
    others,
    restored,
    set_aside,
    with_bucket,
    with_etcdutl,
    with_snapshot,
)

OLD = "var/lib/etcd/.before-restore-20261122T010000Z/snap/db"


def careless(machine: Machine) -> Machine:
    """kubeadm's reset empties the folder of etcd unless it is told not to."""
    machine.answer(
        "^kubeadm reset",
        does="import pathlib, shutil\n"
        "if '--skip-phases=remove-etcd-member' not in sys.argv:\n"
        "    for path in pathlib.Path(here, '../root/var/lib/etcd').iterdir():\n"
        "        shutil.rmtree(path)",
    )
    return machine


def test_the_refusal_names_the_newest_backup(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make(), SNAPSHOT)
    machine.place(DB, "the only copy")
    result = configure(machine)
    assert result.status == 1
    assert "control-plane.sh adopt here, then pulumi up" in result.log
    assert f"pulumi config set --path backup.restore {SNAPSHOT}, then pulumi up" in result.log
    machine = with_bucket(make(), status="403")
    machine.place(DB, "the only copy")
    result = configure(machine)
    assert "control-plane.sh adopt here, then pulumi up" in result.log
    assert "the bucket cannot be listed, so it is not known whether there are backups" in result.log


def test_a_restore_sets_the_data_aside_that_is_there(make: Callable[..., Machine]) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    machine.place(DB, "the only copy")
    result = configure(machine)
    assert result.status == 0, result
    assert machine.read(DB) == "restored"
    assert (machine.fakes / "snapshot").read_text() == "the data"
    assert set_aside(machine) == ["the only copy"]
    assert f"rm -r {machine.root}/var/lib/etcd/.before-restore-" in result.log


def test_data_stays_where_it_is_when_the_snapshot_is_not_available(
    make: Callable[..., Machine],
) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    machine.place(DB, "the only copy")
    machine.answer(f"^curl .*backups/{SNAPSHOT}", does=STORE.format(answer="", status="404"))
    assert configure(machine).status == 1
    assert machine.read(DB) == "the only copy"
    assert not machine.has(f"{STATE}/restoring")


def test_a_forgotten_setting_moves_no_data(make: Callable[..., Machine]) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    answer = f"<Key>restored/{SNAPSHOT}</Key>"
    machine.answer("prefix=restored", does=STORE.format(answer=answer, status="200"))
    machine.place(DB, "the only copy")
    assert configure(machine).status == 1
    assert machine.read(DB) == "the only copy"


def test_a_restore_that_lost_its_machine_sets_nothing_aside_again(
    make: Callable[..., Machine],
) -> None:
    # The new machine has only the volume of the old one.
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT)))
    machine.place(DB, "half")
    machine.place(UNSERVED)
    machine.place(OLD, "the only copy")
    assert configure(machine).status == 0
    assert machine.read(DB) == "restored"
    assert set_aside(machine) == ["the only copy"]


def test_an_interruption_before_the_snapshot_replaces_the_data_loses_nothing(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_snapshot(make()))
    machine.place("var/lib/etcd/.restore/data/member/snap/db", "half")
    machine.place(OLD, "the only copy")
    result = configure(machine)
    assert result.status == 1
    assert ".before-restore-20261122T010000Z holds the data of an etcd that ran" in result.log
    assert adopt(machine).status == 0
    assert machine.read(ADOPTED) == "the only copy"


def test_kubeadms_reset_after_an_interruption_spares_what_was_set_aside(
    make: Callable[..., Machine],
) -> None:
    machine = careless(restored(with_snapshot(make(RESTORE=SNAPSHOT))))
    machine.place(f"{STATE}/restoring")
    machine.place(f"{STATE}/attempt", "init\n")
    machine.answer(f"^curl .*{MINE}:6443", status=7, times=1)
    machine.place(DB, "half")
    machine.place(UNSERVED)
    machine.place(OLD, "the only copy")
    assert configure(machine).status == 0
    machine.order("kubeadm reset --force", "crictl run", "kubeadm init --config")
    assert machine.read(DB) == "restored"
    assert set_aside(machine) == ["the only copy"]


@pytest.mark.parametrize("left", [f"{STATE}/attempt", "etc/kubernetes/kubelet.conf"])
def test_an_interrupted_join_whose_cluster_is_lost_keeps_its_data(
    make: Callable[..., Machine], left: str
) -> None:
    machine = careless(make())
    machine.place(left, "join\n")
    machine.place(DB, "the only copy")
    result = configure(machine)
    assert result.status == 1
    assert "holds the data of an etcd that ran" in result.log
    assert machine.read(DB) == "the only copy"


def test_the_cluster_continues_from_adopted_data(make: Callable[..., Machine]) -> None:
    machine = restored(with_etcdutl(make()))
    machine.place(DB, "the only copy")
    for _ in range(2):
        assert adopt(machine).status == 0
        assert machine.read(ADOPTED) == "the only copy"
    result = configure(machine)
    assert result.status == 0, result
    assert (machine.fakes / "snapshot").read_text() == "the only copy"
    command = json.loads((machine.fakes / "container").read_text())["command"]
    assert {"--mark-compacted", "--skip-hash-check"} <= set(command)
    assert machine.read(DB) == "restored"
    assert not machine.has(UNSERVED)
    assert "DirAvailable--var-lib-etcd" in machine.called("kubeadm init --config")[0]
    machine.order(
        "kubeadm init --config", "delete node --selector=node-role.kubernetes.io/control-plane"
    )
    assert set_aside(machine) == ["the only copy"]
    assert not machine.has(ADOPTED)


def test_an_interrupted_run_after_adopt_begins_again_from_the_same_data(
    make: Callable[..., Machine],
) -> None:
    machine = careless(restored(with_etcdutl(make())))
    machine.place(f"{STATE}/attempt", "init\n")
    machine.answer(f"^curl .*{MINE}:6443", status=7, times=1)
    machine.place(DB, "half")
    machine.place(UNSERVED)
    machine.place(ADOPTED, "the only copy")
    assert configure(machine).status == 0
    assert (machine.fakes / "snapshot").read_text() == "the only copy"
    assert set_aside(machine) == ["the only copy"]


def test_what_the_api_has_served_is_not_made_again(make: Callable[..., Machine]) -> None:
    machine = restored(make())
    machine.place(f"{STATE}/restoring")
    machine.place(f"{STATE}/attempt", "init\n")
    machine.place(f"{STATE}/served")
    machine.place(DB, "newer")
    machine.place(UNSERVED)
    machine.place(ADOPTED, "old")
    assert configure(machine).status == 0
    assert machine.read(DB) == "newer"
    assert not machine.has(UNSERVED)
    assert set_aside(machine) == ["old"]
    assert machine.called("delete node --selector=node-role.kubernetes.io/control-plane")


def test_another_folder_is_adopted_and_the_data_is_set_aside(make: Callable[..., Machine]) -> None:
    machine = restored(with_etcdutl(make()))
    machine.place(DB, "the wrong one")
    folder = machine.place(
        "var/lib/etcd/.from-control-plane-1/snap/db", "the right one"
    ).parent.parent
    assert adopt(machine, folder).status == 0
    assert machine.read(DB) == "the wrong one"
    assert configure(machine).status == 0
    assert (machine.fakes / "snapshot").read_text() == "the right one"
    assert sorted(set_aside(machine)) == ["the right one", "the wrong one"]


@pytest.mark.parametrize("folder", ["srv/data", "var/lib/etcd/empty"])
def test_only_a_folder_next_to_etcds_data_with_a_database_is_adopted(
    make: Callable[..., Machine], folder: str
) -> None:
    machine = make()
    database = machine.place(f"{folder}/snap/db", "" if "empty" in folder else "data")
    result = adopt(machine, database.parent.parent)
    assert result.status == 1
    assert "is no folder in" in result.log
    assert database.exists()


def test_adopt_without_data_says_so(make: Callable[..., Machine]) -> None:
    result = adopt(make())
    assert result.status == 1
    assert "holds no data of an etcd that ran" in result.log


def test_nothing_is_adopted_while_another_control_plane_lives(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.place(DB, "stale")
    others(machine, a22=LISTENING)
    result = adopt(machine)
    assert result.status == 1
    assert "another control plane is there (10.8.0.22" in result.log
    assert machine.read(DB) == "stale"


def test_only_the_first_control_plane_adopts(make: Callable[..., Machine]) -> None:
    machine = make(INITIALIZE="false")
    machine.place(DB, "the only copy")
    result = adopt(machine)
    assert result.status == 1
    assert "only the first control plane can continue from old data" in result.log
    assert machine.has(DB)


def test_the_data_of_an_etcd_that_may_run_is_not_moved(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.place(DB, "at work")
    result = adopt(machine)
    assert result.status == 1
    assert "control-plane.sh alone" in result.log
    assert machine.has(DB)


def test_between_a_backup_and_adopted_data_the_administrator_chooses(
    make: Callable[..., Machine],
) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    machine.place(ADOPTED, "the only copy")
    result = configure(machine)
    assert result.status == 1
    assert (
        "was adopted, and backup.restore is set. For the adopted data: pulumi config rm"
        in result.log
    )
    assert machine.read(ADOPTED) == "the only copy"
    assert not machine.called("kubeadm init --config")
