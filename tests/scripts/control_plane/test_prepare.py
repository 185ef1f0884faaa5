"""control-plane.sh prepare: what a control plane does while another one enters the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scripts.conftest import Machine, Result
from tests.scripts.control_plane.conftest import READY, STATE, configure, member, others

API_SERVER, ETCD = "r.example/kube-apiserver:v1", "r.example/etcd:3"


def prepare(machine: Machine) -> Result:
    return machine.run("control-plane/control-plane.sh", "prepare")


@pytest.fixture
def new(make: Callable[..., Machine]) -> Machine:
    """A new machine that may not begin the cluster, without any image."""
    machine = make(INITIALIZE="false")
    machine.answer("^kubeadm config images list", f"{API_SERVER}\n{ETCD}\n")
    machine.answer("^crictl inspecti", status=1)
    return machine


def test_a_new_machine_is_prepared_without_entering_the_cluster(new: Machine) -> None:
    assert prepare(new).status == 0
    new.order("fake-install all", f"crictl pull {API_SERVER}", f"crictl pull {ETCD}")
    assert not new.called("kubeadm join")
    assert not new.called("kubeadm init")
    assert new.run("control-plane/control-plane.sh", "state").stdout == "new\n"
    others(new, a22=READY)
    assert configure(new).status == 0
    assert new.called("kubeadm join")


def test_an_image_that_is_there_is_not_pulled(new: Machine) -> None:
    new.answer(f"^crictl inspecti .*{ETCD}")
    assert prepare(new).status == 0
    assert new.called(f"crictl pull {API_SERVER}")
    assert not new.called(f"crictl pull {ETCD}")


def test_kubeadm_says_why_an_image_cannot_be_pulled(new: Machine) -> None:
    """It may need another registry than the one that does not answer, or none."""
    new.answer("^crictl pull", status=1)
    assert prepare(new).status == 0
    assert not new.called(f"crictl pull {ETCD}")


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_machine_that_has_been_in_a_cluster_is_left_alone(
    make: Callable[..., Machine], interrupted: bool
) -> None:
    machine = make()
    if interrupted:
        machine.place(f"{STATE}/attempt", "join\n")
    else:
        member(machine)
    assert prepare(machine).status == 0
    assert not machine.called("kubeadm")
    assert not machine.called("crictl")
    assert not machine.called("systemctl")
