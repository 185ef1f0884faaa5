"""control-plane.sh on a member: what a changed configuration restarts, and what it leaves alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from tests.scripts.conftest import FULL_DISK, Machine
from tests.scripts.control_plane.conftest import (
    MEMBERS,
    MINE,
    OWN_MEMBER,
    STATE,
    STATIC_PODS,
    configure,
    member,
    with_kube_proxy,
)


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


@pytest.mark.parametrize(("times", "taken"), [(1, True), (0, False)])
def test_an_api_that_pauses_is_no_reason_to_go_without_the_turn(
    make: Callable[..., Machine], times: int, taken: bool
) -> None:
    machine = member(make())
    machine.environment["OWN_API_TIMEOUT"] = "1"
    machine.answer("^kubectl .* get --raw /readyz", status=1, times=times)
    result = configure(machine)
    assert result.status == 0, result
    assert taken == any("openstack-kubernetes-turn" in each["stdin"] for each in machine.recorded)


def test_an_api_that_pauses_is_asked_again_for_the_node(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.answer("get node demo-control-plane-0", status=1, times=2)
    result = configure(machine)
    assert result.status == 0, result


@pytest.mark.parametrize(
    ("in_force", "wanted", "size", "refused"),
    [
        (8000, 4000, 3601, True),
        (8000, 4000, 3600, False),
        # A full etcd may get more, and keeps what it has.
        (4000, 8000, 3999, False),
        (4000, 4000, 3999, False),
    ],
)
def test_etcd_gets_no_quota_that_its_database_is_too_large_for(
    make: Callable[..., Machine], in_force: int, wanted: int, size: int, refused: bool
) -> None:
    machine = with_kube_proxy(make(ETCD_QUOTA_BYTES=str(wanted)))
    manifest = "etc/kubernetes/manifests/etcd.yaml"
    text = machine.read(manifest) + f"    - --quota-backend-bytes={in_force}\n"
    machine.place(manifest, text)
    machine.place("var/lib/etcd/member/snap/db", "x" * size)
    result = configure(machine)
    assert (result.status != 0) is refused
    assert bool(machine.called("kubeadm")) is not refused
    if refused:
        assert "too many for etcd.quotaBackendBytes 4000: set it to at least 4002" in result.log


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
        # A power cut must leave the old manifests complete.
        "init phase certs apiserver", "manifests.new/kube-apiserver.yaml",
        "init phase control-plane all", "init phase etcd local", "init phase upload-config all",
    )  # fmt: skip
    # The same but for its first days: etcd is not restarted.
    assert machine.read("etc/kubernetes/manifests/etcd.yaml") == manifest
    configure(machine)
    assert not machine.called("init phase")


def test_an_image_that_cannot_be_pulled_leaves_the_control_plane_as_it_is(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    machine.answer("^kubeadm config images list", "r.example/kube-scheduler:v1.36.3\n")
    machine.answer("^crictl inspecti", status=1)
    machine.answer("^crictl pull", status=1)
    result = configure(machine)
    assert result.status == 1
    assert "r.example/kube-scheduler:v1.36.3 could not be pulled" in result.log
    assert not machine.called("kubeadm init")
    # The next run begins again.
    machine.answer("^crictl pull")
    assert configure(machine).status == 0
    machine.order("crictl pull r.example/kube-scheduler", "kubeadm init phase control-plane all")


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
    machine.answer(f"^crictl ps .*Exited .*kube-{pod}", "")
    result = configure(machine)
    assert f"kube-{pod} is not healthy with its new configuration" in result.log
    assert "last said" not in result.log
    assert machine.read(POD_MANIFEST.format(pod)) == before
    # A control plane that joins would start with it.
    assert not machine.called("init phase upload-config")
    # The next run tries again.
    machine.answer(f"^curl .*:{port}/healthz")
    result = configure(machine)
    assert result.status == 0, result
    assert "--no-such-argument" in machine.read(POD_MANIFEST.format(pod))


def test_a_component_that_ends_at_every_start_is_not_waited_for_and_says_why(
    make: Callable[..., Machine],
) -> None:
    machine = with_bad_arguments(make(), "scheduler")
    machine.environment["RESTART_TIMEOUT"] = "600"
    machine.answer(
        "^crictl ps .*Exited .*kube-scheduler",
        does="rule['prints'] = f'{len(open(here + \"/calls\").readlines())}\\nthe one before\\n'",
    )
    machine.answer("^crictl logs .* [0-9]+$", "Error: unknown flag: --no-such-argument\n")
    machine.answer("^curl .*:10259/healthz", status=7)
    before = machine.read(POD_MANIFEST.format("scheduler"))
    result = configure(machine)
    assert "kube-scheduler is not healthy with its new configuration" in result.log
    assert "kube-scheduler last said: Error: unknown flag: --no-such-argument" in result.log
    assert machine.read(POD_MANIFEST.format("scheduler")) == before


def test_a_component_that_its_new_kubelet_restarts_after_it_was_healthy_is_no_failure(
    make: Callable[..., Machine],
) -> None:
    machine = with_kube_proxy(make())
    # Its manifest is as it was: it is healthy, and ends at this moment.
    machine.answer("^curl .*:10259/healthz", status=7)
    machine.answer("^curl .*:10259/healthz", times=1)
    result = configure(machine)
    assert result.status == 0, result


@pytest.mark.parametrize("ready", [True, False])
def test_after_a_kill_an_api_server_that_does_not_start_gets_its_last_arguments_back(
    make: Callable[..., Machine], ready: bool
) -> None:
    machine = member(make())
    path = POD_MANIFEST.format("apiserver")
    last = machine.read(path)
    for pod in STATIC_PODS:
        manifest = machine.read(f"etc/kubernetes/manifests/{pod}.yaml")
        machine.place(f"{STATE}/manifests/{pod}.yaml", manifest)
    machine.place(path, f"{last}    - --new\n")
    machine.answer("member list", MEMBERS + OWN_MEMBER)
    if not ready:
        machine.answer(f"^curl .*{MINE}:6443/readyz", status=7, times=2)
    assert configure(machine).status == 0
    assert machine.read(path) == (f"{last}    - --new\n" if ready else last)
    assert not machine.has(f"{STATE}/manifests")


def test_after_a_reboot_an_api_server_that_still_starts_keeps_its_new_arguments(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.environment["OWN_API_TIMEOUT"] = "30"
    for pod in STATIC_PODS:
        machine.place(f"{STATE}/manifests/{pod}.yaml", "last\n")
    machine.answer("member list", MEMBERS + OWN_MEMBER)
    machine.answer(f"^curl .*{MINE}:6443/readyz", status=7, times=3)
    result = configure(machine)
    assert result.status == 0, result
    assert "continues with its last manifests" not in result.log
    assert not machine.has(f"{STATE}/manifests")


def test_the_last_manifests_stay_until_they_are_back(make: Callable[..., Machine]) -> None:
    machine = member(make())
    for pod in STATIC_PODS:
        machine.place(f"{STATE}/manifests/{pod}.yaml", f"last {pod}\n")
    before = machine.read(POD_MANIFEST.format("apiserver"))
    files = "control-plane/static-pods.sh control-plane/kubeadm-config.sh"
    full = machine.library(files, f"{FULL_DISK}; put_manifests_back || echo failed")
    assert full.stdout == "failed\n"
    assert machine.read(POD_MANIFEST.format("apiserver")) == before
    assert machine.library(files, "put_manifests_back").status == 0
    assert machine.read(POD_MANIFEST.format("apiserver")) == "last kube-apiserver\n"
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


def test_a_changed_audit_policy_is_read_also_when_the_run_is_interrupted(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.write("etc/audit-policy.yaml", "other\n")
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
    machine.write("etc/audit-policy.yaml", "stricter\n")
    machine.answer("^crictl ps", "new\n")
    machine.answer("^crictl ps .*kube-apiserver", "old\n", times=2)
    assert configure(machine).status == 0
    assert machine.called("crictl stop") == ["crictl stop --timeout 10 old"]


def test_an_api_server_that_refuses_a_file_gets_the_last_one_back(
    make: Callable[..., Machine],
) -> None:
    machine = member(make())
    machine.write("etc/audit-policy.yaml", "refused\n")
    policy = "etc/kubernetes/audit-policy.yaml"
    before = machine.read(policy)
    machine.environment["RESTART_TIMEOUT"] = "600"
    machine.answer("^crictl ps", "1\n")
    machine.answer(
        "^crictl ps .*Exited",
        does="rule['prints'] = f'{len(open(here + \"/calls\").readlines())}\\nthe one before\\n'",
    )
    machine.answer("^crictl logs", "Error: failed to parse the audit policy\n")
    machine.answer("^crictl stop", does="open(here + '/stopped', 'w')")
    machine.answer(
        "^curl .*10.8.0.21:6443/readyz",
        does="rule['status'] = 7 * os.path.exists(here + '/stopped')",
    )
    result = configure(machine)
    assert result.status == 1
    assert "kube-apiserver last said: Error: failed to parse the audit policy" in result.log
    assert machine.read(policy) == before
    # One that it takes comes with the next run.
    machine.write("etc/audit-policy.yaml", "better\n")
    machine.answer("^curl .*10.8.0.21:6443/readyz")
    assert configure(machine).status == 0
    assert machine.read(policy) == "better\n"


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


@pytest.mark.parametrize(
    ("fails", "again"),
    [
        ("kubeadm init phase control-plane", "kubeadm init phase certs apiserver"),
        ("kubeadm init phase upload-config all", "kubeadm init phase control-plane all"),
        ("kubeadm init phase addon kube-proxy", "kubeadm init phase upload-config all"),
    ],
)
def test_a_configuration_that_was_taken_back_takes_the_place_of_the_one_that_failed(
    make: Callable[..., Machine], fails: str, again: str
) -> None:
    machine = with_kube_proxy(make())
    config = machine.folder / "kubeadm-init.yaml"
    sum_of_it = hashlib.sha256(config.read_bytes()).hexdigest()
    machine.place(f"{STATE}/kubeadm-init.sha256", sum_of_it + "\n")
    machine.answer(fails, status=1)
    earlier = config.read_text()
    machine.write("kubeadm-init.yaml", "changed again\n")
    assert configure(machine).status == 1
    machine.write("kubeadm-init.yaml", earlier)
    machine.answer(fails)
    result = configure(machine)
    assert result.status == 0, result.log
    assert machine.called(again)
