"""alone.sh: the only survivor of a cluster continues."""

from __future__ import annotations

from collections.abc import Callable

from tests.scripts.conftest import Machine
from tests.scripts.control_plane.conftest import (
    LISTENING,
    TIMER,
    configure,
    member,
    others,
    with_bucket,
)

ETCD = "etc/kubernetes/manifests/etcd.yaml"
MANIFEST = "    - etcd\n    - --name=demo-control-plane-0\n"


def survivor(machine: Machine) -> Machine:
    """A member whose etcd has lost its majority."""
    member(machine)
    others(machine)
    machine.place(ETCD, MANIFEST)
    machine.answer("^crictl ps .*etcd", "etcd-id\n")
    machine.answer("^crictl ps .*kube-apiserver", "api-id\n")
    return machine


def test_a_lone_survivor_continues_by_itself(make: Callable[..., Machine]) -> None:
    machine = survivor(make())
    machine.answer(
        "^systemctl start kubelet",
        times=2,
        does="import shutil\n"
        f"shutil.copy(os.path.join(here, '../root/{ETCD}'),"
        " os.path.join(here, f'manifest-{len(os.listdir(here))}'))",
    )
    result = machine.run("control-plane/control-plane.sh", "alone")
    assert result.status == 0, result
    written = sorted(machine.fakes.glob("manifest-*"), key=lambda path: path.stat().st_mtime_ns)
    first, second = (path.read_text() for path in written)
    assert first == MANIFEST.replace("- etcd\n", "- etcd\n    - --force-new-cluster\n")
    assert second == machine.read(ETCD) == MANIFEST
    machine.order(
        "systemctl stop kubelet", "stop --timeout 10 api-id", "stop --timeout 10 etcd-id",
        "systemctl start kubelet",
    )  # fmt: skip


def test_an_interrupted_survivor_loses_the_flag_first(make: Callable[..., Machine]) -> None:
    machine = survivor(make())
    machine.place(ETCD, MANIFEST + "    - --force-new-cluster\n")
    assert machine.run("control-plane/control-plane.sh", "alone").status == 0
    assert machine.read(ETCD) == MANIFEST
    assert len(machine.called("systemctl stop kubelet")) == 1


def test_a_survivor_whose_api_stays_down_does_not_keep_the_flag(
    make: Callable[..., Machine],
) -> None:
    machine = survivor(make())
    machine.answer("^curl .*10.8.0.21:6443/readyz", status=7)
    machine.does_not_wait("control-plane/control-plane.sh", 360)
    result = machine.run("control-plane/control-plane.sh", "alone")
    assert result.status == 1
    assert "the API server of this machine is not ready" in result.log
    assert machine.read(ETCD) == MANIFEST


def test_a_member_that_kept_the_flag_loses_it(make: Callable[..., Machine]) -> None:
    machine = member(make())
    manifest = machine.read(ETCD)
    machine.place(ETCD, manifest + "    - --force-new-cluster\n")
    assert configure(machine).status == 0
    assert machine.read(ETCD) == manifest


def test_reset_ends_the_backups(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make(BACKUP_HOURS="6"))
    assert configure(machine).status == 0
    assert machine.run("control-plane/control-plane.sh", "reset").status == 0
    assert not machine.has(TIMER)
    assert not machine.has("etc/openstack-kubernetes/bucket.env")


def test_no_one_continues_alone_while_another_one_lives(make: Callable[..., Machine]) -> None:
    machine = survivor(make())
    others(machine, a22=LISTENING)
    result = machine.run("control-plane/control-plane.sh", "alone")
    assert result.status == 1
    assert "another control plane is there (10.8.0.22" in result.log
    assert machine.read(ETCD) == MANIFEST
