"""control-plane.sh: which one initializes, which ones join, and that no data is lost."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.kubeadm import encryption_configuration
from tests.scripts.conftest import (
    BACKUP_FOLDER,
    BUCKET_ENV,
    COMMON,
    MAKE_BACKUP_KEY,
    STORE,
    Machine,
    Result,
    signing_request,
)

CONFIG = "var/lib/kubelet/config.yaml"
STATE = "var/lib/openstack-kubernetes"
MINE = "10.8.0.21"
DEAD = "{address} 000 0.000000\n"
READY = "{address} 200 0.001000\n"
LISTENING = "{address} 000 0.001000\n"
PODS = "etcd-demo-control-plane-1 demo-control-plane-1 True\n"
MEMBERS = (
    "11, started, demo-control-plane-1, https://10.8.0.22:2380, https://10.8.0.22:2379, false\n"
)
OWN_MEMBER = (
    "22, started, demo-control-plane-0, https://10.8.0.21:2380, https://10.8.0.21:2379, false\n"
)

# kubeadm's init and upgrade let a controller approve all that tokens of its own group ask for.
END_OF_AUTO_APPROVAL = "delete clusterrolebinding kubeadm:node-autoapprove-bootstrap"

# What the cluster has stored is what the folder says.
ANNOTATION = "openstack-kubernetes-configuration"
STORED = hashlib.sha256(b"kubeadm-init.yaml\n---\n").hexdigest()


def others(machine: Machine, **answers: str) -> None:
    """Answers of the other control planes' ports: `a22=READY` for 10.8.0.22; the rest are dead."""
    for last in range(22, 26):
        address = f"10.8.0.{last}"
        text = answers.get(f"a{last}", DEAD).format(address=address)
        machine.answer(f"^curl .*https://{address}:", text, status=0 if text != DEAD else 7)


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A control plane's machine, when no other one answers."""

    def machine(**values: str) -> Machine:
        made = make_machine(
            {
                **COMMON,
                "ROLE": "control-plane",
                "NODE_NAME": "demo-control-plane-0",
                "NODE_IP": MINE,
                "INITIALIZE": "true",
                "ETCD_DEVICE": "",
                "ETCD_IMAGE": "r.example/etcd/etcd:v1",
                "CERTIFICATE_SECONDS": "31536000",
                "CLOUD_CONFIG_GROUP": str(os.getgid()),
                **values,
            }
        )
        made.environment["READY_TIMEOUT"] = "1"
        for name in ("kubeconfig", "kubeadm-init.yaml", "kubeadm-join.yaml", "etc/audit.yaml"):
            made.write(name, f"{name}\n")
        made.write("encryption.yaml", encryption_configuration(["c2VjcmV0"], encrypt=True))
        for name in ("ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key"):
            made.write(f"pki/{name}", "the CA\n")
        for end in ("pub", "key"):
            made.write(f"service-account/1.{end}", f"the {end}\n")
        made.place(CONFIG, "same\n").chmod(0o644)  # as kubeadm leaves it
        made.answer("^kubelet --version", "Kubernetes v1.36.3\n")
        made.answer("config view --raw", "Q0E=")
        made.answer("get pods -l component=etcd", PODS)
        made.answer("member list", MEMBERS)
        made.answer("^mountpoint", status=1)
        made.answer("get configmap kubeadm-config .*annotations", STORED)
        others(made)
        return made

    return machine


def configure(machine: Machine) -> Result:
    return machine.run("control-plane/control-plane.sh", "configure")


def member(machine: Machine, version: str = "v1.36.3") -> Machine:
    """The same machine as a member of a healthy cluster."""
    machine.place(f"{STATE}/member", "demo\n")
    machine.place("etc/kubernetes/kubelet.conf")
    machine.place("etc/kubernetes/audit.yaml", "etc/audit.yaml\n")
    for name in ("ca.crt", "apiserver.crt", "apiserver.key"):
        machine.place(f"etc/kubernetes/pki/{name}", "the CA\n")
    for pod in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        image = f"    image: registry.k8s.io/{pod}:{version}\n"
        machine.place(
            f"etc/kubernetes/manifests/{pod}.yaml",
            "    - --initial-cluster=one,two\n    - --initial-cluster-state=existing\n" + image
            if pod == "etcd"
            else f"{image}    path: /etc/kubernetes/audit.yaml\n",
        )
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}|v1.36.3|||True|ready"
    )
    machine.answer("^kubelet --version", f"Kubernetes {version}\n")
    others(machine, a22=READY)
    config = (machine.folder / "kubeadm-init.yaml").read_bytes()
    machine.place(f"{STATE}/kubeadm-init.sha256", hashlib.sha256(config).hexdigest() + "\n")
    return machine


# --- the first one ------------------------------------------------------------------------------


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
    assert (machine.root / "etc/kubernetes/audit.yaml").stat().st_mode & 0o777 == 0o600


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


def test_a_failed_init_shows_the_end_of_the_kubelets_log(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^kubeadm init", status=1, complains="timed out waiting\n")
    machine.answer("^journalctl .*kubelet", "swap is on\n")
    result = configure(machine)
    assert result.status == 1
    for part in ("timed out waiting", "swap is on", 'step "kubeadm init"'):
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


# --- a server that came after the cluster had begun ---------------------------------------------

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


# --- the others ---------------------------------------------------------------------------------


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
JOINED = """
root = here + "/../root/etc/kubernetes/"
os.makedirs(root + "manifests", exist_ok=True)
os.makedirs(here + "/../root/var/lib/kubelet", exist_ok=True)
open(here + "/../root/var/lib/kubelet/config.yaml", "w").close()
for pod in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
    with open(root + "manifests/" + pod + ".yaml", "w") as manifest:
        manifest.write("    - --initial-cluster=a\\n    image: k8s/" + pod + ":v1.36.3\\n")
for name in ("apiserver.crt", "apiserver.key"):
    open(root + "pki/" + name, "w").close()
"""
ETCD_MANIFEST = """
with open(os.environ["KUBEADM_INIT_DRYRUN_DIR"] + "/etcd.yaml", "w") as manifest:
    manifest.write("    - --initial-cluster=b\\n    image: k8s/etcd:v1.36.3\\n")
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
    machine = make()
    others(machine, a22=READY)
    older = JOINED.replace("v1.36.3", "v1.36.2")
    machine.answer("^kubeadm join", does=older)
    machine.answer("^kubeadm upgrade (apply|node --)", does=JOINED)
    machine.answer("kubeadm init phase etcd", does=ETCD_MANIFEST)
    machine.answer(
        "kubeadm init phase certs",
        does="open(here + '/../root/etc/kubernetes/pki/apiserver.crt', 'w')",
    )
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}|v1.36.3|||True|fine"
    )
    machine.answer("get node demo-control-plane-0", "", times=1)
    machine.answer(
        "get configmap kubeadm-config .*ClusterConfiguration", "kubernetesVersion: v1.36.2\n"
    )
    machine.answer("get configmap kubeadm-config .*annotations", "older")
    result = configure(machine)
    assert result.status == 0, result
    machine.order(
        "kubeadm join", "kubeadm upgrade apply --yes", "init phase upload-config all",
        "kubeadm upgrade node phase kubelet-config",
    )  # fmt: skip
    assert machine.has(f"{STATE}/kubeadm-init.sha256")


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
    assert "kubeadm join failed 3 times" in result.log


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
    (machine.root / "var/lib/etcd/lost+found").mkdir()
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
    script = machine.folder / "control-plane/join.sh"
    script.write_text(script.read_text().replace("wait_for 120", "wait_for 0"))
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


# --- the etcd volume ----------------------------------------------------------------------------


@pytest.fixture
def volume(make: Callable[..., Machine]) -> Machine:
    """A control plane with an attached volume."""
    machine = make()
    device = machine.place("dev/disk/by-id/virtio-0123")
    text = (machine.folder / "node.env").read_text()
    machine.write("node.env", text + f"ETCD_DEVICE='{device.parent}/*0123*'\n")
    machine.answer("^blkid -p -s UUID", "uuid-1\n")
    machine.answer("^findfs", f"{device}\n")
    return machine


def test_a_blank_volume_gets_a_file_system(volume: Machine) -> None:
    volume.answer("^blkid -p -s TYPE", status=2)
    assert configure(volume).status == 0
    volume.order("mkfs.ext4", "systemctl restart openstack-kubernetes-etcd-volume", "kubeadm init")
    unit = volume.read("etc/systemd/system/openstack-kubernetes-etcd-volume.service")
    assert "Before=kubelet.service" in unit
    assert "RequiredBy=kubelet.service" in unit
    assert volume.read(f"{STATE}/etcd-volume") == "uuid-1\n"


def test_a_volume_with_a_file_system_keeps_it(volume: Machine) -> None:
    volume.answer("^blkid -p -s TYPE", "ext4\n")
    assert configure(volume).status == 0
    assert not volume.called("mkfs")


@pytest.mark.parametrize(
    ("says", "status", "error"),
    [
        ("xfs\n", 0, 'holds "xfs", neither blank nor ext4'),
        ("dos\n", 0, 'holds "dos", neither blank nor ext4'),
        ("", 8, "blkid cannot tell"),
    ],
)
def test_a_volume_with_anything_else_is_not_touched(
    volume: Machine, says: str, status: int, error: str
) -> None:
    volume.answer("^blkid -p -s TYPE", says, status=status)
    result = configure(volume)
    assert result.status == 1
    assert error in result.log
    assert not volume.called("mkfs")


def test_at_boot_the_volume_is_mounted_and_never_formatted(volume: Machine) -> None:
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    assert volume.run("control-plane/control-plane.sh", "mount").status == 0
    volume.order("findfs UUID=uuid-1", "e2fsck -p", "mount -o noatime")
    assert not volume.called("mkfs")


def test_below_the_volume_no_etcd_can_begin(volume: Machine) -> None:
    volume.place(f"{STATE}/etcd-volume", "uuid-1\n")
    # Two boots: the file is there already.
    for _ in range(2):
        assert volume.run("control-plane/control-plane.sh", "mount").status == 0
        assert (volume.root / "var/lib/etcd/member").is_file()
    # Nor does it look like the data of one that ran there.
    volume.answer("^blkid -p -s TYPE", "ext4\n")
    assert configure(volume).status == 0


def test_a_mounted_volume_stays_mounted(volume: Machine) -> None:
    volume.answer("^mountpoint")
    assert configure(volume).status == 0
    assert volume.called("systemctl start openstack-kubernetes-etcd-volume")
    assert not volume.called("systemctl restart openstack-kubernetes-etcd-volume")


@pytest.mark.parametrize("joined", [True, False])
def test_a_machine_whose_etcd_has_had_a_volume_refuses_to_continue_without(
    make: Callable[..., Machine], joined: bool
) -> None:
    machine = member(make()) if joined else make()
    machine.place(f"{STATE}/etcd-volume", "uuid-1\n")
    result = configure(machine)
    assert result.status == 1
    assert "controlPlane.etcdVolume has left the configuration. Set it again" in result.log
    assert not machine.called("kubeadm")


# --- a member -----------------------------------------------------------------------------------


def test_nothing_to_do_does_nothing(make: Callable[..., Machine]) -> None:
    machine = member(make())
    assert configure(machine).status == 0
    result = configure(machine)
    assert result.status == 0
    by_kubeadm = [line for line in machine.calls if line.startswith("kubeadm ")]
    assert [line for line in by_kubeadm if "fake-install" not in line] == [
        "kubeadm upgrade node phase kubelet-config"
    ]
    assert not machine.called("restart")
    assert not machine.called("crictl")
    assert "wrote" not in result.log


def test_a_changed_configuration_is_stored_and_made_into_manifests(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.write("kubeadm-init.yaml", "changed\n")
    machine.answer(
        "kubeadm init phase etcd",
        does="open(os.environ['KUBEADM_INIT_DRYRUN_DIR'] + '/etcd.yaml', 'w').write("
        "'    - --initial-cluster=alone\\n    image: registry.k8s.io/etcd:v1.36.3\\n')",
    )
    machine.answer(
        "kubeadm init phase certs",
        does="open(here + '/../root/etc/kubernetes/pki/apiserver.crt', 'w')",
    )
    manifest = machine.read("etc/kubernetes/manifests/etcd.yaml")
    assert configure(machine).status == 0
    machine.order(
        "init phase certs apiserver", "init phase control-plane all",
        "init phase etcd local", "init phase upload-config all",
    )  # fmt: skip
    # The same but for its first days: etcd is not restarted.
    assert machine.read("etc/kubernetes/manifests/etcd.yaml") == manifest
    configure(machine)
    assert not machine.called("init phase")


POD_MANIFEST = "etc/kubernetes/manifests/kube-{}.yaml"
# A manifest as kubeadm writes it, with an argument that the program does not know.
BAD_MANIFEST = (
    "with open(here + '/../root/etc/kubernetes/manifests/kube-{}.yaml', 'a') as file:\n"
    "    file.write('    - --no-such-argument\\n')"
)


def with_bad_arguments(machine: Machine, pod: str) -> Machine:
    """A member whose configuration has changed: this pod does not start with it."""
    with_kube_proxy(machine)
    machine.answer("kubeadm init phase control-plane", does=BAD_MANIFEST.format(pod))
    machine.answer(f"^crictl ps .*kube-{pod}", "new\n")
    machine.answer(f"^crictl ps .*kube-{pod}", "old\n", times=1)
    return machine


@pytest.mark.parametrize(("pod", "port"), [("controller-manager", 10257), ("scheduler", 10259)])
def test_a_component_that_does_not_start_gets_its_last_arguments_back(
    make: Callable[..., Machine], pod: str, port: int
) -> None:
    machine = with_bad_arguments(make(), pod)
    before = machine.read(POD_MANIFEST.format(pod))
    machine.answer(f"^curl .*:{port}/healthz", status=7)
    result = configure(machine)
    assert f"kube-{pod} is not healthy with its new configuration" in result.log
    assert machine.read(POD_MANIFEST.format(pod)) == before
    # A control plane that joins would start with it.
    assert not machine.called("init phase upload-config")
    # The next run tries again.
    machine.answer(f"^curl .*:{port}/healthz")
    result = configure(machine)
    assert result.status == 0, result
    assert "--no-such-argument" in machine.read(POD_MANIFEST.format(pod))


@pytest.mark.parametrize("ready", [True, False])
def test_after_a_kill_an_api_server_that_does_not_start_gets_its_last_arguments_back(
    make: Callable[..., Machine], ready: bool
) -> None:
    machine = member(make())
    path = POD_MANIFEST.format("apiserver")
    last = machine.read(path)
    for pod in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        manifest = machine.read(f"etc/kubernetes/manifests/{pod}.yaml")
        machine.place(f"{STATE}/manifests/{pod}.yaml", manifest)
    machine.place(path, f"{last}    - --new\n")
    machine.answer("member list", MEMBERS + OWN_MEMBER)
    if not ready:
        machine.answer(f"^curl .*{MINE}:6443/readyz", status=7, times=2)
    assert configure(machine).status == 0
    assert machine.read(path) == (f"{last}    - --new\n" if ready else last)
    assert not machine.has(f"{STATE}/manifests")


def test_a_configuration_is_stored_once_the_api_server_allows_it(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    machine.environment["RESTART_TIMEOUT"] = "30"
    # What kubeadm makes of an API server that has not read the roles yet.
    missing = "the ClusterRoleBinding for the kubeadm:cluster-admins Group is missing"
    machine.answer("init phase upload-config", status=1, complains=missing, times=2)
    result = configure(machine)
    assert result.status == 0, result
    assert len(machine.called("init phase upload-config")) == 3
    machine.order("init phase control-plane all", "init phase upload-config")


CERTIFICATE = (
    "for end in ('crt', 'key'):\n"
    "    open(f'{here}/../root/etc/kubernetes/pki/apiserver.{end}', 'w')\n"
)
MANIFESTS = "kind: ServiceAccount\n---\nkind: ConfigMap\ndata: new\n---\nkind: DaemonSet\n"


def with_kube_proxy(machine: Machine) -> Machine:
    """A member whose configuration has changed, kube-proxy's too."""
    member(machine)
    machine.write("kubeadm-init.yaml", "changed\n")
    machine.answer(
        "kubeadm init phase etcd", does=ETCD_MANIFEST.replace("k8s/", "registry.k8s.io/")
    )
    machine.answer("kubeadm init phase certs", does=CERTIFICATE)
    machine.answer("kubeadm init phase addon kube-proxy", MANIFESTS)
    machine.answer("get daemonset kube-proxy --ignore-not-found", "k8s/kube-proxy:v1.36.3")
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|2|1")
    machine.answer("get configmap kube-proxy", "new")
    machine.answer("replace --dry-run=server", "new")
    return machine


def test_a_changed_configuration_reaches_kube_proxy(make: Callable[..., Machine]) -> None:
    machine = with_kube_proxy(make())
    machine.answer("get configmap kube-proxy", "old", times=1)
    machine.environment["RESTART_TIMEOUT"] = "20"
    # The controller has not seen it; then the first pod starts; then it runs.
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|1|1", times=2)
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|4|3|", times=1)
    result = configure(machine)
    assert result.status == 0, result
    machine.order("replace -f -", "rollout restart daemonset kube-proxy", "annotate configmap")
    [sent] = [each["stdin"] for each in machine.recorded if "replace -f -" in each["line"]]
    # Not the DaemonSet: its version is the upgrade's business.
    assert [line for line in sent.splitlines() if "kind" in line] == ["kind: ConfigMap"]
    assert len(machine.called("get daemonset kube-proxy -o jsonpath")) == 4


def test_kube_proxy_is_left_alone_when_something_else_has_changed(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    assert configure(machine).status == 0
    assert not machine.called("rollout")


def test_a_kube_proxy_that_does_not_start_stops_the_run_and_is_tried_again(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    machine.answer("get configmap kube-proxy", "old", times=1)
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|1|1")
    result = configure(machine)
    assert result.status == 1
    assert "kube-proxy does not start with its new configuration" in result.log
    machine.rules = [rule for rule in machine.rules if not rule["times"]]
    machine.answer("get daemonset kube-proxy -o jsonpath", "6|6|1|")
    assert configure(machine).status == 0
    assert machine.called("rollout restart")


def test_an_api_server_that_restarts_is_waited_for(make: Callable[..., Machine]) -> None:
    machine = with_kube_proxy(make())
    machine.environment["RESTART_TIMEOUT"] = "20"
    machine.answer("get configmap kube-proxy", "old", times=1)
    machine.answer("get configmap kube-proxy", status=1, times=1)
    machine.answer("rollout restart", status=1, times=1)
    machine.answer("get daemonset kube-proxy --ignore-not-found", status=1, times=2)
    result = configure(machine)
    assert result.status == 0, result
    assert len(machine.called("rollout restart")) == 2


@pytest.mark.parametrize("image", ["", "k8s/kube-proxy:v1.35.4"])
def test_no_kube_proxy_and_one_that_is_not_upgraded_yet_are_left_alone(
    make: Callable[..., Machine], image: str
) -> None:
    machine = with_kube_proxy(make())
    machine.answer("get daemonset kube-proxy --ignore-not-found", image)
    assert configure(machine).status == 0
    assert not machine.called("replace")


def with_coredns(machine: Machine) -> Machine:
    machine.answer("get deployment coredns", "r.example/coredns:v1.14.2")
    return machine


def applied(machine: Machine) -> dict[str, Any]:
    """Kind -> the object of this kind that was applied."""
    texts = [each["stdin"] for each in machine.recorded if " apply -f -" in each["line"]]
    return {each["kind"]: each for each in map(yaml.safe_load, texts)}


def test_each_coredns_runs_on_another_machine_and_one_on_every_node(
    make: Callable[..., Machine],
) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="3", NODE_DNS="true")))
    assert configure(machine).status == 0
    [patch] = machine.called("patch deployment coredns")
    spec = json.loads(patch.partition("--patch ")[2])["spec"]
    assert spec["replicas"] == 3
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    [apart] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    objects = applied(machine)
    pods = objects["DaemonSet"]["spec"]["template"]
    # The image that this version of Kubernetes has, from wherever kubeadm takes it.
    assert pods["spec"]["containers"][0]["image"] == "r.example/coredns:v1.14.2"
    assert pods["spec"]["tolerations"] == [{"operator": "Exists"}]
    # What allows pods to ask CoreDNS allows them to ask these. They are on every node: the others
    # could not be apart from them, and a budget can only count pods with a number of replicas.
    assert pods["metadata"]["labels"]["k8s-app"] == "kube-dns"
    budget = objects["PodDisruptionBudget"]["spec"]
    for selector in (apart["labelSelector"], budget["selector"]):
        assert selector == {
            "matchLabels": {"k8s-app": "kube-dns"},
            "matchExpressions": [
                {
                    "key": "app.kubernetes.io/name",
                    "operator": "NotIn",
                    "values": [pods["metadata"]["labels"]["app.kubernetes.io/name"]],
                }
            ],
        }
    assert budget["maxUnavailable"] == 1


def test_coredns_is_placed_again_after_kubeadm_has_written_its_own(
    make: Callable[..., Machine],
) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="2"), version="v1.35.4"))
    machine.answer("^kubelet --version", "Kubernetes v1.35.4\n", times=2)
    machine.answer("get configmap kubeadm-config .*data", "kubernetesVersion: v1.36.3\n")
    assert configure(machine).status == 0
    machine.order("kubeadm upgrade node", "patch deployment coredns")


def test_a_coredns_on_every_node_goes_when_it_is_switched_off(make: Callable[..., Machine]) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="2", NODE_DNS="false")))
    assert configure(machine).status == 0
    assert machine.called("delete daemonset node-dns")
    assert set(applied(machine)) == {"PodDisruptionBudget"}


def test_where_coredns_is_missing_nothing_takes_its_place(make: Callable[..., Machine]) -> None:
    machine = member(make(COREDNS_REPLICAS="2", NODE_DNS="true"))
    assert configure(machine).status == 0
    assert machine.called("get deployment coredns")
    assert not machine.called("patch deployment")
    assert not applied(machine)


def test_an_api_server_that_restarts_is_waited_for_before_coredns_is_placed(
    make: Callable[..., Machine],
) -> None:
    machine = with_coredns(member(make(COREDNS_REPLICAS="2", NODE_DNS="true")))
    machine.environment["RESTART_TIMEOUT"] = "20"
    machine.answer("apply -f -", status=1, times=2)
    machine.answer("get deployment coredns", status=1, times=1)
    assert configure(machine).status == 0
    assert set(applied(machine)) == {"PodDisruptionBudget", "DaemonSet"}


def test_a_changed_audit_policy_is_read_also_when_the_run_is_interrupted(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.write("etc/audit.yaml", "other\n")
    machine.answer(
        "^crictl ps", does="rule['prints'] = str(len(open(here + '/calls').readlines()))"
    )
    machine.answer("^crictl stop", status=1)
    assert configure(machine).status == 1
    machine.answer("^crictl stop")
    assert configure(machine).status == 0
    assert len(machine.called("crictl stop")) == 1
    assert configure(machine).status == 0
    assert not machine.called("crictl stop")


def test_a_failed_certificate_leaves_the_old_one(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.write("kubeadm-init.yaml", "changed\n")
    machine.answer("kubeadm init phase certs", status=1)
    assert configure(machine).status == 1
    assert machine.has("etc/kubernetes/pki/apiserver.crt")
    assert machine.has("etc/kubernetes/pki/apiserver.key")


def test_a_changed_audit_policy_restarts_the_api_server_alone(make: Callable[..., Machine]) -> None:
    machine = member(make())
    configure(machine)
    machine.write("etc/audit.yaml", "stricter\n")
    machine.answer("^crictl ps", "new\n")
    machine.answer("^crictl ps", "old\n", times=1)
    assert configure(machine).status == 0
    assert machine.called("crictl stop") == ["crictl stop --timeout 30 old"]


def test_the_api_server_is_not_restarted_for_a_file_that_it_does_not_know(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.write("etc/admission.yaml", "new\n")
    assert configure(machine).status == 0
    assert machine.has("etc/kubernetes/admission.yaml")
    assert not machine.called("crictl stop")


def test_an_api_server_left_without_certificate_by_an_interrupted_run_gets_it_back(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    pki = machine.root / "etc/kubernetes/pki"
    for name in ("crt", "key"):
        (pki / f"apiserver.{name}").rename(pki / f"apiserver.{name}.old")
    result = configure(machine)
    assert result.status == 0, result
    assert "interrupted while it renewed the API server's certificate" in result.log
    assert not list(pki.glob("*.old"))


def test_no_manifest_of_etcd_is_no_reason_to_stop_it(make: Callable[..., Machine]) -> None:
    machine = with_kube_proxy(make())
    machine.answer("kubeadm init phase etcd")
    before = machine.read("etc/kubernetes/manifests/etcd.yaml")
    assert configure(machine).status == 1
    assert machine.read("etc/kubernetes/manifests/etcd.yaml") == before


def test_another_clusters_ca_is_refused(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.place("etc/kubernetes/pki/ca.crt", "another\n")
    result = configure(machine)
    assert "node of another cluster that is alive" in result.log


def test_a_member_that_was_removed_joins_again(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.answer("^curl .*10.8.0.21:6443", status=7, times=1)
    machine.answer("get node demo-control-plane-0", "")
    result = configure(machine)
    assert "the cluster has removed this machine while it was down" in result.log
    machine.order("kubeadm reset --force", "kubeadm join")


@pytest.mark.parametrize("answer", ["", "11, started, demo-control-pl"])
def test_an_answer_without_members_expels_no_one(make: Callable[..., Machine], answer: str) -> None:
    machine = member(make())
    machine.answer("^curl .*10.8.0.21:6443", status=7, times=1)
    machine.answer("member list", answer)
    assert configure(machine).status == 0
    assert not machine.called("kubeadm reset")


def test_a_deleted_node_registers_again_with_its_role(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.answer("get node demo-control-plane-0", "", times=1)
    assert configure(machine).status == 0
    machine.order("systemctl restart kubelet", "kubeadm init phase mark-control-plane")


def test_the_first_one_upgrades_the_cluster(make: Callable[..., Machine]) -> None:
    machine = member(make(), "v1.36.2")
    machine.answer("get configmap kubeadm-config", "kubernetesVersion: v1.36.2\n")
    assert configure(machine).status == 0
    machine.order("fake-install kubeadm", "kubeadm upgrade apply --yes", "fake-install all")
    machine.order("kubeadm upgrade apply --yes", END_OF_AUTO_APPROVAL)
    assert machine.called("kubeadm upgrade apply")[0].endswith(" v1.36.3")


def test_the_next_one_upgrades_itself(make: Callable[..., Machine]) -> None:
    machine = member(make(), "v1.36.2")
    machine.answer("get configmap kubeadm-config", "kubernetesVersion: v1.36.3\n")
    assert configure(machine).status == 0
    assert machine.called("kubeadm upgrade node --ignore")
    assert not machine.called("upgrade apply")


def test_a_file_that_the_new_manifests_name_is_there_before_the_upgrade(
    make: Callable[..., Machine],
) -> None:
    machine = member(make(), "v1.36.2")
    machine.answer("get configmap kubeadm-config", "kubernetesVersion: v1.36.3\n")
    machine.write("etc/admission.yaml", "new\n")
    machine.answer(
        "^kubeadm upgrade node --",
        does="open(here + '/../root/etc/kubernetes/admission.yaml').close()",
    )
    result = configure(machine)
    assert result.status == 0, result


def test_there_is_no_way_back(make: Callable[..., Machine]) -> None:
    result = configure(member(make(), "v1.37.0"))
    assert "Kubernetes cannot go back to v1.36.3" in result.log


# --- backups ------------------------------------------------------------------------------------

TIMER = "etc/systemd/system/openstack-kubernetes-backup.timer"
UNSERVED = "var/lib/etcd/member/unserved"
SNAPSHOT = f"{BACKUP_FOLDER}/20261122T010000Z-demo-control-plane-1.db.gz"


def with_bucket(machine: Machine, names: str = "", status: str = "200") -> Machine:
    """The bucket that it has, and what is in it."""
    machine.write("bucket.env", BUCKET_ENV)
    answer = f"<IsTruncated>false</IsTruncated><Key>{names}</Key>" if names else "<nothing/>"
    machine.answer("^curl ", does=STORE.format(answer="", status="200"))
    machine.answer("^curl .*list-type=2", does=STORE.format(answer=answer, status=status))
    machine.answer("prefix=restored", does=STORE.format(answer="<nothing/>", status="200"))
    others(machine)
    return machine


def with_snapshot(machine: Machine) -> Machine:
    """The bucket has SNAPSHOT, and the image of etcd has etcdutl."""
    with_bucket(machine, SNAPSHOT)
    machine.answer(
        f"^curl .*backups/{SNAPSHOT}",
        does="import gzip, pathlib\n"
        "path = sys.argv[sys.argv.index('--output') + 1]\n"
        "pathlib.Path(path).write_bytes(gzip.compress(b'the data'))\n"
        "sys.stdout.write('200')",
    )
    return with_etcdutl(machine)


def with_etcdutl(machine: Machine, revision: int = 1234) -> Machine:
    """It has etcdutl in the image of etcd, which restores whatever it is given."""
    status = f'T stdout F {{"hash":1,"revision":{revision},"totalKey":5,"version":"3.6.0"}}\n'
    machine.answer("^kubeadm config images list", "r.example/pause:3\nr.example/etcd:3.6.8-0\n")
    machine.answer(
        "^crictl run ",
        "container-id\n",
        does="import json, pathlib\n"
        "container, pod = (json.load(open(path)) for path in sys.argv[-2:])\n"
        "pathlib.Path(here, 'container').write_text(json.dumps(container))\n"
        "work = pathlib.Path(container['mounts'][0]['host_path'])\n"
        "pathlib.Path(here, 'snapshot').write_bytes((work / 'snapshot').read_bytes())\n"
        "if 'etcd:3.6.8-0' not in container['image']['image']: sys.exit(1)\n"
        "if container['command'][2] == 'status':\n"
        f"    (work / 'etcdutl.log').write_text({status!r})\n"
        "else:\n"
        "    data = work / 'data/member/snap'\n"
        "    data.mkdir(parents=True)\n"
        "    (data / 'db').write_text('restored')",
    )
    machine.answer("^crictl inspect .*status.state", "CONTAINER_EXITED")
    machine.answer("^crictl inspect .*status.exitCode", "0")
    machine.answer("^crictl pods", "pod-id\n")
    machine.answer("^crictl pods", times=1)
    return machine


def restored(machine: Machine) -> Machine:
    """With Nodes that the snapshot knows, until they are deleted."""
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}|v1.36.3|||True|ready"
    )
    machine.answer("get node demo-control-plane-0", "", times=1)
    return machine


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
    script = machine.folder / "control-plane/restore.sh"
    script.write_text(script.read_text().replace("wait_for 60", "wait_for 0"))
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


# --- data on a volume ---------------------------------------------------------------------------

DB = "var/lib/etcd/member/snap/db"
ADOPTED = "var/lib/etcd/.adopt/snap/db"
OLD = "var/lib/etcd/.before-restore-20261122T010000Z/snap/db"


def set_aside(machine: Machine) -> list[str]:
    """The databases whose place something else has taken, the oldest first."""
    found = (machine.root / "var/lib/etcd").glob(".before-restore-*/snap/db")
    return [path.read_text() for path in sorted(found)]


def adopt(machine: Machine, *folder: Path) -> Result:
    return machine.run("control-plane/control-plane.sh", "adopt", *map(str, folder))


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


# --- a snapshot that is no good -----------------------------------------------------------------


def test_a_snapshot_that_cannot_be_read_is_named(make: Callable[..., Machine]) -> None:
    machine = with_bucket(make(RESTORE=SNAPSHOT), SNAPSHOT)
    refusal = STORE.format(
        answer="<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", status="404"
    )
    machine.answer(f"^curl .*backups/{SNAPSHOT}", does=refusal)
    result = configure(machine)
    assert result.status == 1
    assert "answers 404 NoSuchKey: none" in result.log
    assert f"{SNAPSHOT} cannot be read from the bucket backups" in result.log
    assert not machine.called("kubeadm init --config")


def test_an_image_without_etcdutl_gives_way_to_one_that_has_it(
    make: Callable[..., Machine],
) -> None:
    machine = restored(with_snapshot(make(RESTORE=SNAPSHOT, ETCD_IMAGE="o.example/etcd:3.6.8-0")))
    machine.answer("^kubeadm config images list", "r.example/etcd:3.6.7-0\n")
    machine.answer("^crictl inspecti .*o.example", status=1)
    result = configure(machine)
    assert result.status == 0, result
    assert "r.example/etcd:3.6.7-0 has no etcdutl" in result.log
    assert machine.called("crictl pull o.example/etcd:3.6.8-0")


def test_a_damaged_snapshot_shows_the_output_of_etcdutl(make: Callable[..., Machine]) -> None:
    machine = with_snapshot(make(RESTORE=SNAPSHOT))
    machine.answer(
        "^crictl run ",
        "container-id\n",
        does="import json, pathlib\n"
        "pod = json.load(open(sys.argv[-1]))\n"
        "log = 'T stdout F {\"revision\":5}\\nexpected sha256\\n'\n"
        "pathlib.Path(pod['log_directory'], 'etcdutl.log').write_text(log)",
    )
    machine.answer("^crictl inspect .*status.exitCode", "1")
    machine.answer("^crictl inspect .*status.exitCode", "0", times=1)
    result = configure(machine)
    assert result.status == 1
    assert "  | expected sha256" in result.log
    assert f"etcdutl could not restore {SNAPSHOT}" in result.log
    assert not machine.called("kubeadm init --config")


# --- alone --------------------------------------------------------------------------------------

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
    script = machine.folder / "control-plane/control-plane.sh"
    script.write_text(script.read_text().replace("wait_for 240", "wait_for 0"))
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


# --- defragmentation ----------------------------------------------------------------------------

STATUS = '"MemberID" : 34\n"DBSize" : {size}\n"DBSizeInUse" : {used}\n"Leader" : {leader}\n'
# The turn of the certificates, as far as this needs it.
TURN = """
take_turn() {{ kubectl fake-turn "$1"; {free}; }}
end_turn() {{ kubectl fake-end-of-turn; }}
"""


def fragmented(
    machine: Machine, *, size: int = 200 << 20, used: int = 80 << 20, leader: int = 99,
    free: str = "true",
) -> Machine:  # fmt: skip
    """A member whose database has this size, and those bytes of it in use."""
    member(machine)
    script = machine.folder / "control-plane/defragment.sh"
    script.write_text(script.read_text() + TURN.format(free=free))
    machine.place(DB)
    machine.answer("^crictl ps", "etcd-id\n")
    machine.answer("^df ", "Avail\n1000000000\n")
    machine.answer("endpoint status", STATUS.format(size=size, used=used, leader=leader))
    machine.answer("member list", OWN_MEMBER + MEMBERS)
    return machine


def defragment(machine: Machine) -> Result:
    return machine.run("control-plane/control-plane.sh", "defragment")


def test_a_database_that_is_mostly_free_is_defragmented_in_turn(
    make: Callable[..., Machine],
) -> None:
    machine = fragmented(make())
    result = defragment(machine)
    assert result.status == 0, result
    machine.order("fake-turn defragmentation of etcd", "600s defrag", "fake-end-of-turn")
    [command] = machine.called("600s defrag")
    assert command.startswith("crictl exec etcd-id etcdctl --endpoints=https://127.0.0.1:2379 ")
    assert "--cluster" not in command
    assert not machine.called("move-leader")


def test_a_leader_hands_over_before_it_is_defragmented(make: Callable[..., Machine]) -> None:
    machine = fragmented(make(), leader=34)
    assert defragment(machine).status == 0
    machine.order("fake-turn", "move-leader 11", "600s defrag")


def test_the_only_member_is_defragmented_as_leader(make: Callable[..., Machine]) -> None:
    machine = fragmented(make(), leader=34)
    machine.answer("member list", OWN_MEMBER)
    assert defragment(machine).status == 0
    assert not machine.called("move-leader")
    assert machine.called("600s defrag")


@pytest.mark.parametrize(("size", "used"), [(100 << 20, 1 << 20), (200 << 20, 100 << 20)])
def test_a_database_that_is_small_or_in_use_is_left_alone(
    make: Callable[..., Machine], size: int, used: int
) -> None:
    machine = fragmented(make(), size=size, used=used)
    assert defragment(machine).status == 0
    assert not machine.called("fake-turn")
    assert not machine.called("600s defrag")


def test_no_one_is_defragmented_out_of_turn(make: Callable[..., Machine]) -> None:
    machine = fragmented(make(), free="false")
    assert defragment(machine).status == 0
    assert not machine.called("600s defrag")


def test_a_disk_without_room_for_a_second_database_is_not_filled(
    make: Callable[..., Machine],
) -> None:
    machine = fragmented(make())
    machine.answer("^df ", "Avail\n1000\n")
    result = defragment(machine)
    assert result.status == 1
    assert f"needs {80 << 20} for the defragmentation of etcd" in result.log
    assert not machine.called("600s defrag")


def test_its_timer_defragments(make: Callable[..., Machine]) -> None:
    machine = make()
    assert configure(machine).status == 0
    assert machine.called("systemctl restart -- openstack-kubernetes-defragment.timer")
    assert machine.run("control-plane/control-plane.sh", "reset").status == 0
    assert not machine.has("etc/systemd/system/openstack-kubernetes-defragment.timer")
