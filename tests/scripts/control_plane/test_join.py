"""control-plane.sh on a control plane that joins a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from components.api_server_files import encryption_configuration
from tests.scripts.conftest import Machine, signing_request
from tests.scripts.control_plane.conftest import (
    ADOPTED,
    ETCD_MANIFEST,
    LISTENING,
    MEMBERS,
    MINE,
    OWN_MEMBER,
    READY,
    STATE,
    STATIC_PODS,
    STORED,
    configure,
    others,
    upgrades,
)

ANNOTATION = "openstack-kubernetes-configuration"


def test_a_cluster_that_answers_is_joined(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a24=READY)
    machine.answer(
        "^kubeadm join",
        does="import shutil\n"
        "shutil.copy(here + '/../root/run/openstack-kubernetes/discovery.conf', here + '/seen')",
    )
    result = configure(machine)
    assert result.status == 0, result
    assert "the API answers at 10.8.0.24" in result.log
    assert not machine.called("kubeadm init")
    assert "token: " in (machine.fakes / "seen").read_text()
    assert not machine.has("run/openstack-kubernetes/discovery.conf")
    machine.order("create -f -", "kubeadm join", "delete secret bootstrap-token-")


def test_one_that_joins_approves_the_certificate_of_its_own_node_only(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    others(machine, a24=READY)
    other, own = (signing_request(f"system:node:demo-control-plane-{index}") for index in (1, 0))
    machine.requests(
        "^kubeadm join",
        f"csr-1 system:bootstrap:TOKEN {other}\n",
        f"csr-2 system:bootstrap:TOKEN {own}\n",
    )
    result = configure(machine)
    assert result.status == 0, result
    machine.order("create -f -", "certificate approve csr-2", "delete secret bootstrap-token-")
    assert not machine.called("certificate approve csr-1")


# What kubeadm join leaves behind, as far as the script looks at it.
JOINED = f"""
root = here + "/../root/etc/kubernetes/"
os.makedirs(root + "manifests", exist_ok=True)
os.makedirs(here + "/../root/var/lib/kubelet", exist_ok=True)
open(here + "/../root/var/lib/kubelet/config.yaml", "w").close()
for pod in {STATIC_PODS}:
    with open(root + "manifests/" + pod + ".yaml", "w") as manifest:
        manifest.write("    - --initial-cluster=a\\n    image: k8s/" + pod + ":v1.36.3\\n")
for name in ("apiserver.crt", "apiserver.key"):
    open(root + "pki/" + name, "w").close()
"""


@pytest.mark.parametrize("stored", ["", "what the others were told before"])
def test_one_that_joins_with_new_names_gets_them_into_its_certificate(
    make: Callable[..., Machine], stored: str
) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer("^kubeadm join", does=JOINED)
    machine.answer("kubeadm init phase etcd", does=ETCD_MANIFEST)
    machine.answer(
        "kubeadm init phase certs",
        does="open(here + '/../root/etc/kubernetes/pki/apiserver.crt', 'w')",
    )
    machine.answer("get configmap kubeadm-config .*annotations", stored)
    result = configure(machine)
    assert result.status == 0, result
    machine.order(
        "kubeadm join", "init phase certs apiserver", "init phase upload-config all",
        f"annotate configmap kubeadm-config --overwrite {ANNOTATION}={STORED}",
    )  # fmt: skip
    assert machine.has(f"{STATE}/kubeadm-init.sha256")


def test_one_with_a_wrong_clock_does_not_wait_for_an_api_that_it_cannot_verify(
    make: Callable[..., Machine],
) -> None:
    machine = make(INITIALIZE="false")
    machine.environment["CLOCK_TIMEOUT"] = "0"
    others(machine, a23=LISTENING)
    hour = formatdate(time.time() + 3600, usegmt=True)
    machine.answer("^curl .*10.8.0.23:6443/livez", hour)
    result = configure(machine)
    assert result.status == 1
    assert "seconds behind that of the API server at 10.8.0.23" in result.log
    assert not machine.called("kubeadm join")


def test_one_that_joins_a_cluster_with_its_configuration_generates_nothing_again(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer("^kubeadm join", does=JOINED)
    assert configure(machine).status == 0
    assert not machine.called("init phase")
    assert machine.has(f"{STATE}/kubeadm-init.sha256")


def test_one_that_joins_an_older_cluster_is_upgraded_at_once(make: Callable[..., Machine]) -> None:
    machine = upgrades(make())
    others(machine, a22=READY)
    machine.answer("^kubeadm join", does=JOINED.replace("v1.36.3", "v1.36.2"))
    machine.answer(
        "kubeadm init phase certs",
        does="open(here + '/../root/etc/kubernetes/pki/apiserver.crt', 'w')",
    )
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}|v1.36.3|||True|fine"
    )
    machine.answer("get node demo-control-plane-0", "", times=1)
    machine.answer("get configmap kubeadm-config .*annotations", "older")
    result = configure(machine)
    assert result.status == 0, result
    machine.order(
        "kubeadm join", "kubeadm upgrade apply --yes", "init phase upload-config all",
        "kubeadm upgrade node phase kubelet-config",
    )  # fmt: skip
    assert machine.has(f"{STATE}/kubeadm-init.sha256")


def test_the_last_one_of_an_upgrade_brings_the_add_ons_also_when_it_was_replaced_meanwhile(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.environment["RESTART_TIMEOUT"] = "30"
    others(machine, a22=READY)
    machine.answer("^kubeadm join", does=JOINED)
    machine.answer("get daemonset kube-proxy --ignore-not-found", "k8s/kube-proxy:v1.36.2")
    machine.answer("get pod kube-apiserver-demo-control-plane-0", "k8s/kube-apiserver:v1.36.3")
    machine.answer("get pod kube-apiserver-demo-control-plane-0", "", times=2)
    result = configure(machine)
    assert result.status == 0, result
    machine.order("kubeadm join", "get pod kube-apiserver", "kubeadm upgrade node phase addon all")
    assert len(machine.called("get pod kube-apiserver")) == 3


def test_one_that_joins_an_older_cluster_stays_undone_when_its_node_is_not_ready(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.environment["READY_TIMEOUT"] = "0"
    others(machine, a22=READY)
    machine.answer("^kubeadm join", does=JOINED.replace("v1.36.3", "v1.36.2"))
    machine.answer("get node demo-control-plane-0", "")
    result = configure(machine)
    assert result.status == 1
    assert "its API server runs v1.36.2: run again when it is Ready" in result.log
    assert not machine.called("kubeadm upgrade")


def test_what_the_first_one_stores_is_the_same_for_every_control_plane(
    make: Callable[..., Machine],
) -> None:
    def stored(name: str) -> str:
        machine = make(NODE_NAME=name)
        own = f"kind: InitConfiguration\nname: {name}\n"
        machine.write("kubeadm-init.yaml", f"{own}---\nkind: ClusterConfiguration\n")
        assert configure(machine).status == 0
        return machine.called(f"{ANNOTATION}=")[0].rpartition("=")[2]

    assert stored("demo-control-plane-0") == stored("demo-control-plane-1")


def test_what_a_dead_machine_of_this_name_left_goes_first(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer("member list", MEMBERS + OWN_MEMBER)
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}||||Unknown|gone"
    )
    assert configure(machine).status == 0
    machine.order("delete node demo-control-plane-0", "member remove 22", "kubeadm join")
    assert not machine.called("member remove 11")


def test_a_living_machine_of_this_name_is_not_removed(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer(
        "get node demo-control-plane-0", "demo-control-plane-0||||10.8.0.77|v1.36.3|||True|ready"
    )
    result = configure(machine)
    assert result.status == 1
    assert "Ready at 10.8.0.77, which is not this machine (10.8.0.21)" in result.log
    assert not machine.called("delete node")


def test_an_interrupted_join_leaves_etcd_before_anything_is_wiped(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.place(f"{STATE}/attempt", "join\n")
    machine.place("etc/kubernetes/manifests/etcd.yaml")
    others(machine, a22=READY)
    machine.answer("member list", MEMBERS + OWN_MEMBER)
    assert configure(machine).status == 0
    machine.order(
        "systemctl start kubelet", "member remove 22", "kubeadm reset --force", "kubeadm join"
    )


def test_a_join_that_etcd_refuses_is_tried_again(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer("^kubeadm join", status=1, complains="too many learner members\n", times=1)
    assert configure(machine).status == 0
    assert len(machine.called("kubeadm join")) == 2
    assert len(machine.called("delete secret bootstrap-token-")) == 2
    machine.answer("^kubeadm join", status=1)
    (machine.root / STATE / "member").unlink()
    result = configure(machine)
    assert len(machine.called("kubeadm join")) == 3
    assert "could not join in 3 tries" in result.log


BEGAN = "get namespace kube-system -o jsonpath=.*metadata.creationTimestamp"


def test_etcd_data_is_stale_where_the_cluster_lives_without_it(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer(BEGAN, "2020-01-15T08:00:00Z")
    data = machine.place("var/lib/etcd/member/wal")
    machine.place("var/lib/etcd/.unserved-20260101T000000Z/snap/db")
    machine.place("var/lib/etcd/.before-restore-20260101T000000Z/snap/db")
    machine.place("var/lib/etcd/lost+found/#12")
    assert configure(machine).status == 0
    assert not data.exists()
    assert list((machine.root / "var/lib/etcd").iterdir()) == []


def test_no_one_joins_over_adopted_data(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer(BEGAN, "2020-01-15T08:00:00Z")
    machine.place(ADOPTED, "the only copy")
    result = configure(machine)
    assert result.status == 1
    assert ".adopt was adopted, but another control plane answers: not joining" in result.log
    assert machine.read(ADOPTED) == "the only copy"
    assert not machine.called("member remove")
    assert machine.run("control-plane/control-plane.sh", "reset").status == 0
    assert not machine.has(ADOPTED)


def test_no_one_joins_while_the_members_of_etcd_are_unknown(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a22=READY)
    machine.answer("member list", "")
    machine.does_not_wait("control-plane/join.sh", 120)
    result = configure(machine)
    assert result.status == 1
    assert "the members of etcd could not be listed" in result.log
    assert not machine.called("kubeadm join")


def test_no_one_joins_an_empty_cluster_over_the_data_of_an_older_one(
    make: Callable[..., Machine],
) -> None:
    machine = make(INITIALIZE="false")
    others(machine, a22=READY)
    machine.answer(BEGAN, "2027-01-15T08:00:01Z")
    data = machine.place("var/lib/etcd/member/wal")
    os.utime(data, (1_800_000_000, 1_800_000_000))
    result = configure(machine)
    assert result.status == 1
    assert "was last written 20270115T080000Z, before the cluster that answers began" in result.log
    assert data.exists()
    assert not machine.called("kubeadm join")
    assert not machine.called("member remove")


def test_no_attempt_leaves_its_token(make: Callable[..., Machine]) -> None:
    machine = make()
    others(machine, a22=READY)
    # A rotation is under way, and etcd does not say what the token is encrypted with.
    machine.write("encryption.yaml", encryption_configuration(["YQ==", "Yg=="], encrypt=True))
    result = configure(machine)
    assert result.status == 1
    assert "could not join in 3 tries" in result.log
    made = [line for line in machine.recorded if "name: bootstrap-token-" in line["stdin"]]
    assert len(machine.called("delete secret bootstrap-token-")) == len(made) == 3
