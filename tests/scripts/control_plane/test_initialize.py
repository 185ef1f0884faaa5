"""control-plane.sh on the first control plane: who initializes the cluster, and who must not."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.scripts.conftest import Machine
from tests.scripts.control_plane.conftest import (
    CONFIG,
    DB,
    END_OF_AUTO_APPROVAL,
    LISTENING,
    MINE,
    READY,
    SNAPSHOT,
    STATE,
    UNSERVED,
    adopt,
    configure,
    member,
    others,
    restored,
    with_bucket,
    with_etcdutl,
    with_snapshot,
)


def test_with_no_other_control_plane_the_designated_one_initializes(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    result = configure(machine)
    assert result.status == 0, result
    machine.order("fake-install all", "systemctl is-enabled", "kubeadm init --config")
    command = machine.called("kubeadm init --config")[0]
    assert "--skip-token-print" in command
    machine.order("kubeadm init", END_OF_AUTO_APPROVAL)
    assert "show-join-command" in command
    assert "--ignore-preflight-errors=Swap" in command
    assert machine.has(f"{STATE}/member")
    assert not machine.has(f"{STATE}/attempt")
    assert not machine.called("kubeadm join")
    assert (machine.root / CONFIG).stat().st_mode & 0o777 == 0o600


# The Node is deleted at the first request for the kubelet's health, until the kubelet starts again.
DELETED = """
with open(here + "/calls") as calls:
    _, asked, since = calls.read().partition("proxy/healthz")
if asked and "systemctl restart kubelet" not in since:
    rule["prints"] = ""
"""


def test_a_node_that_is_deleted_while_its_certificate_is_awaited_comes_back(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.environment["REGISTER_SECONDS"] = "0"
    # On a busy machine, a second is not enough for the fakes.
    machine.environment["READY_TIMEOUT"] = "30"
    own = f"demo-control-plane-0||||{MINE}|v1.36.3|||True|ready"
    machine.answer("get node demo-control-plane-0", own, does=DELETED)
    machine.answer("get --raw /api/v1/nodes/demo-control-plane-0/proxy/healthz", status=1, times=3)
    result = configure(machine)
    assert result.status == 0, result
    assert "no Node demo-control-plane-0: registering it again" in result.log
    machine.order(
        "systemctl restart kubelet.service",
        "init phase mark-control-plane",
        "label node demo-control-plane-0",
    )


def test_the_certificate_authorities_are_in_place_before(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer(
        "^kubeadm init",
        does="assert os.path.exists(here + '/../root/etc/kubernetes/pki/etcd/ca.key')",
    )
    assert configure(machine).status == 0
    pki = machine.root / "etc/kubernetes/pki"
    assert (pki / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (pki / "ca.crt").stat().st_mode & 0o777 == 0o644
    assert (machine.root / "etc/kubernetes/audit-policy.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("joined", [False, True])
def test_only_the_programs_that_log_in_to_the_cloud_can_read_its_credential(
    make: Callable[..., Machine], joined: bool
) -> None:
    machine = member(make()) if joined else make()
    machine.place("etc/kubernetes/cloud/csi/cloud.conf", "the last one\n")
    machine.place("etc/kubernetes/cloud/csi/ca.crt", "no longer\n")
    machine.place("etc/kubernetes/cloud/gone/cloud.conf", "no longer\n")
    machine.write("cloud/csi/cloud.conf", "secret\n")
    result = configure(machine)
    assert result.status == 0, result
    cloud = machine.root / "etc/kubernetes/cloud"
    files = {str(each.relative_to(cloud)) for each in cloud.glob("*/*")}
    assert files == {"csi/cloud.conf"}
    assert (cloud / "csi/cloud.conf").read_text() == "secret\n"
    assert (cloud / "csi/cloud.conf").stat().st_mode & 0o777 == 0o640
    assert (cloud / "csi").stat().st_mode & 0o7777 == 0o2750
    # No program that runs has to start again for it.
    assert not joined or not machine.called("systemctl restart kubelet")


def test_what_a_repair_of_the_file_system_has_saved_is_not_deleted(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.place("var/lib/etcd/lost+found/#12")
    result = configure(machine)
    assert result.status == 1
    assert "lost+found has files that e2fsck saved" in result.log
    assert not machine.called("kubeadm init")


def test_another_one_does_not_initialize(make: Callable[..., Machine]) -> None:
    machine = make(INITIALIZE="false")
    result = configure(machine)
    assert result.status == 1
    assert "no other control plane answers" in result.log
    assert "INITIALIZE is false here" in result.log
    assert not machine.called("kubeadm init")
    assert not machine.called("kubeadm join")


def test_next_to_an_unhealthy_cluster_no_one_initializes(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a23=LISTENING)
    result = configure(machine)
    assert result.status == 1
    assert "something listens at 10.8.0.23" in result.log
    assert not machine.called("kubeadm init")
    assert not machine.called("kubeadm join")


def test_an_unhealthy_cluster_that_recovers_is_joined(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a23=READY)
    machine.answer("^curl .*https://10.8.0.23:", LISTENING.format(address="10.8.0.23"), times=2)
    assert configure(machine).status == 0
    assert machine.called("kubeadm join")
    assert not machine.called("kubeadm init")


def test_etcd_data_of_an_earlier_life_is_not_overwritten(make: Callable[..., Machine]) -> None:
    machine = make()
    data = machine.place("var/lib/etcd/member/wal")
    os.utime(data, (1_800_000_000, 1_800_000_000))
    result = configure(machine)
    assert result.status == 1
    assert "member holds the data of an etcd that ran, last written 20270115T080000Z" in result.log
    for verb in ("adopt", "reset"):
        assert f"control-plane.sh {verb} here, then pulumi up" in result.log
    assert "backup.restore" not in result.log
    assert data.exists()
    assert not machine.called("kubeadm init")


def test_a_failed_init_shows_the_end_of_the_logs(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^kubeadm init", status=1, complains="timed out waiting\n")
    machine.answer("^journalctl .*kubelet", "swap is on\n")
    machine.answer("^crictl ps .*Exited .*kube-apiserver", "ended\n")
    machine.answer("^crictl logs .* ended$", "Error: unknown flag: --no-such-argument\n")
    result = configure(machine)
    assert result.status == 1
    for part in (
        "timed out waiting",
        "kubeadm init failed; kube-apiserver last said: Error: unknown flag: --no-such-argument",
        "swap is on",
        'step "kubeadm init"',
    ):
        assert part in result.log


def test_an_init_interrupted_before_the_api_came_up_starts_again(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.place(f"{STATE}/attempt", "init\n")
    data = machine.place("var/lib/etcd/member/wal")
    machine.answer(f"^curl .*{MINE}:6443", status=7, times=1)
    assert configure(machine).status == 0
    machine.order("systemctl stop kubelet", "kubeadm reset --force", "kubeadm init --config")
    assert not data.exists()
    # Its API may have served others after that run.
    assert list((machine.root / "var/lib/etcd").glob(".unserved-*/wal"))
    assert "DirAvailable--var-lib-etcd" in machine.called("kubeadm init --config")[0]


def test_an_init_whose_api_came_up_after_the_interruption_is_finished(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.place(f"{STATE}/attempt", "init\n")
    machine.place("etc/kubernetes/manifests/etcd.yaml")
    data = machine.place("var/lib/etcd/member/wal")
    assert configure(machine).status == 0
    assert not machine.called("reset")
    assert "--skip-phases=preflight," in machine.called("kubeadm init")[0]
    assert data.exists()


def test_an_init_interrupted_after_that_is_finished_without_a_reset(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.place(f"{STATE}/attempt", "init\n")
    machine.place(f"{STATE}/served")
    data = machine.place("var/lib/etcd/member/wal")
    assert configure(machine).status == 0
    assert not machine.called("reset")
    assert "--skip-phases=preflight," in machine.called("kubeadm init")[0]
    assert data.exists()
    assert not machine.has(f"{STATE}/served")


BEGIN_EMPTY = "pulumi config set --path controlPlane.beginEmpty true"


def test_an_empty_cluster_does_not_replace_a_lost_one(make: Callable[..., Machine]) -> None:
    machine = make(INITIALIZE="restore")
    result = configure(machine)
    assert result.status == 1
    assert "there is no backup.bucket: not beginning an empty one in its place" in result.log
    assert f"{BEGIN_EMPTY}, then pulumi up" in result.log
    assert not machine.called("kubeadm init")


def test_an_empty_cluster_does_not_replace_one_without_backups(
    make: Callable[..., Machine],
) -> None:
    machine = with_bucket(make(INITIALIZE="restore"))
    result = configure(machine)
    assert result.status == 1
    assert "the bucket backups has no backup of it" in result.log
    assert not machine.called("kubeadm init --config")


def test_what_an_interrupted_run_left_can_be_adopted_in_place_of_an_empty_cluster(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_etcdutl(make(INITIALIZE="restore")))
    machine.place(DB, "perhaps served")
    machine.place(UNSERVED)
    result = configure(machine)
    assert result.status == 1
    [aside] = (machine.root / "var/lib/etcd").glob(".unserved-*")
    assert f"control-plane.sh adopt {aside} here, then pulumi up" in result.log
    assert adopt(machine, aside).status == 0
    assert configure(machine).status == 0
    assert (machine.fakes / "snapshot").read_text() == "perhaps served"


def test_a_lost_cluster_is_restored_without_leave_to_begin_empty(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_snapshot(make(INITIALIZE="restore", RESTORE=SNAPSHOT)))
    assert configure(machine).status == 0
    assert machine.read(DB) == "restored"


def test_a_cluster_that_lives_is_joined_without_leave_to_begin_empty(
    make: Callable[..., Machine],
) -> None:
    machine = make(INITIALIZE="restore")
    others(machine, a24=READY)
    assert configure(machine).status == 0
    assert machine.called("kubeadm join")


def test_data_that_is_worthless_says_how_to_begin_without_it(make: Callable[..., Machine]) -> None:
    machine = make(INITIALIZE="restore")
    machine.place(DB, "worthless")
    assert f"control-plane.sh reset here, {BEGIN_EMPTY}, then pulumi up" in configure(machine).log
    machine = with_bucket(make(INITIALIZE="restore"), SNAPSHOT)
    log = configure(machine).log
    assert f"delete them from the bucket backups, {BEGIN_EMPTY}, then pulumi up" in log
