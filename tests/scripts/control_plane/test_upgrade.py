"""control-plane.sh on a member of an older release: the upgrade."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scripts.conftest import Machine
from tests.scripts.control_plane.conftest import (
    CONFIG,
    END_OF_AUTO_APPROVAL,
    KUBELET,
    MEMBERS,
    OWN_MEMBER,
    STATE,
    STATIC_PODS,
    before_upgrade,
    configure,
    member,
)

BACKUP = "openstack-kubernetes-backup.service"
MANIFESTS = "etc/kubernetes/manifests"
KUBELET_STARTS = "^systemctl start kubelet"
LAST_PART = "--skip-phases=preflight,control-plane"

# Ends the script that runs this, and not only its subshell.
KILL_SCRIPT = """
def parent(process):
    with open(f"/proc/{process}/stat") as status:
        return int(status.read().rpartition(")")[2].split()[1])


def command(process):
    with open(f"/proc/{process}/cmdline") as line:
        return line.read()


process, script = os.getppid(), 0
while process > 1:
    if "control-plane.sh" in command(process):
        script = process
    process = parent(process)
os.kill(script, 9)
"""


def manifests(machine: Machine) -> dict[str, str]:
    return {pod: machine.read(f"{MANIFESTS}/{pod}.yaml") for pod in STATIC_PODS}


def is_new(machine: Machine) -> bool:
    return all(":v1.36.3" in text for text in manifests(machine).values())


def test_the_first_one_upgrades_the_cluster(make: Callable[..., Machine]) -> None:
    machine = before_upgrade(make(BACKUP_HOURS="6"))
    result = configure(machine)
    assert result.status == 0, result
    machine.order(
        "fake-install kubeadm", f"systemctl start {BACKUP}",
        # A removed setting must not keep the new kubelet from starting.
        "kubeadm init phase upload-config kubelet",
        "kubeadm upgrade apply --yes v1.36.3 --ignore-preflight-errors=Swap "
        # Without a last part, no one would end the automatic approval of certificates.
        "--ignore-preflight-errors=ImagePull "
        "--skip-phases=control-plane,upload-config,bootstrap-token,addon",
        "fake-install programs", "kubeadm init phase control-plane all", "get pod kube-apiserver",
        f"kubeadm upgrade apply --yes v1.36.3 {LAST_PART}", END_OF_AUTO_APPROVAL,
    )  # fmt: skip
    assert is_new(machine)


def test_the_next_one_upgrades_itself(make: Callable[..., Machine]) -> None:
    machine = before_upgrade(make(BACKUP_HOURS="6"), cluster="v1.36.3")
    result = configure(machine)
    assert result.status == 0, result
    machine.order(
        "kubeadm upgrade node --ignore-preflight-errors=Swap --ignore-preflight-errors=ImagePull "
        "--skip-phases=control-plane,addon",
        "kubeadm init phase control-plane all", f"kubeadm upgrade node {LAST_PART}",
    )  # fmt: skip
    assert not machine.called("upgrade apply")
    assert not machine.called(f"systemctl start {BACKUP}")


def test_images_of_another_registry_are_pulled_before_anything_stops(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    new = "r.example/kube-apiserver:v1.36.3"
    machine.answer("^kubeadm config images list", f"{new}\nr.example/pause:3.10\n")
    machine.answer("^crictl inspecti", status=1)
    assert configure(machine).status == 0
    machine.order("fake-install kubeadm", f"crictl pull {new}", "kubeadm upgrade", "systemctl stop")
    # A node gets the others when its pods need them.
    assert not machine.called("crictl pull r.example/pause")


def test_an_image_that_cannot_be_pulled_stops_an_upgrade_before_it_begins(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    machine.answer("^kubeadm config images list", "r.example/etcd:3\n")
    machine.answer("^crictl inspecti", status=1)
    machine.answer("^crictl pull", status=1, complains="no such host\n")
    result = configure(machine)
    assert result.status == 1
    assert "r.example/etcd:3 could not be pulled" in result.log
    assert "no such host" in result.log
    assert not machine.called("kubeadm upgrade")
    assert not machine.called("systemctl stop")


def test_the_kubelets_settings_are_stored_again_when_an_upgrade_that_failed_is_taken_back(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    machine.answer("^kubeadm upgrade", status=1)
    assert configure(machine).status == 1
    machine.order("kubeadm init phase upload-config kubelet", "kubeadm upgrade")
    # Whatever comes next is a change.
    assert not machine.has(f"{STATE}/kubeadm-init.sha256")


def test_the_kubelet_and_the_static_pods_change_at_the_same_time(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    assert configure(machine).status == 0
    machine.order(
        "fake-install programs", "systemctl stop kubelet",
        # An API server without etcd accepts connections and answers none.
        "crictl stop --timeout 10 kube-apiserver-1", "crictl stop --timeout 10 etcd-1",
        "kubeadm init phase control-plane all", "kubeadm init phase etcd local",
        "systemctl start kubelet",
    )  # fmt: skip


def test_add_ons_wait_until_the_api_shows_the_new_api_server(make: Callable[..., Machine]) -> None:
    machine = before_upgrade(make())
    machine.environment["RESTART_TIMEOUT"] = "30"
    machine.answer("get pod kube-apiserver", "k8s/kube-apiserver:v1.36.2", times=2)
    machine.answer("get pod kube-apiserver", status=1, times=1)
    assert configure(machine).status == 0
    asked = [i for i, line in enumerate(machine.calls) if "get pod kube-apiserver" in line]
    assert len(asked) == 4
    assert any(LAST_PART in line for line in machine.calls[asked[-1] :])


def test_without_a_snapshot_an_upgrade_does_not_begin(make: Callable[..., Machine]) -> None:
    machine = before_upgrade(make(BACKUP_HOURS="6"))
    machine.answer(f"^systemctl start {BACKUP}", status=1)
    machine.answer(f"^journalctl .*{BACKUP}", "not enough space\n")
    result = configure(machine)
    assert result.status == 1
    assert "no snapshot could be taken before the upgrade" in result.log
    assert "  | not enough space" in result.log
    assert not machine.called("kubeadm upgrade")
    # What the operator may do then.
    settings = (machine.folder / "node.env").read_text()
    machine.write("node.env", settings.replace("BACKUP_HOURS='6'\n", ""))
    assert configure(machine).status == 0
    assert not machine.called(f"systemctl start {BACKUP}")


def test_no_one_restarts_while_another_control_plane_is_not_well(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    machine.answer("^curl .*10.8.0.22:6443/readyz", status=7)
    result = configure(machine)
    assert result.status == 1
    assert "the API server of demo-control-plane-1 is not ready" in result.log
    assert not machine.called("systemctl stop kubelet")


def test_an_api_server_that_does_not_start_gets_its_last_release_back(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    before = manifests(machine)
    machine.answer(KUBELET_STARTS, does="open(here + '/started', 'w')")
    machine.answer(
        "^curl .*10.8.0.21:6443/readyz",
        does="rule['status'] = 7 * os.path.exists(here + '/started')",
    )
    result = configure(machine)
    assert result.status == 1
    assert "kube-apiserver is not healthy with its new configuration" in result.log
    assert manifests(machine) == before
    assert not machine.called(LAST_PART)


def test_a_kubelet_that_does_not_stay_up_is_put_back_with_all_that_it_starts(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    before = manifests(machine)
    machine.answer(
        "^kubeadm upgrade apply", does=f"open(here + '/../root/{CONFIG}', 'w').write('new')"
    )
    machine.answer("^curl .*:10248/healthz", status=7)
    machine.answer("^journalctl .*kubelet", "unrecognized feature gate: Gone\n")
    result = configure(machine)
    assert result.status == 1
    assert "the kubelet does not stay up" in result.log
    assert "unrecognized feature gate" in result.log
    assert manifests(machine) == before
    assert (machine.read(KUBELET), machine.read(CONFIG)) == ("v1.36.2\n", "same\n")
    assert machine.calls[-2:].count("systemctl restart kubelet.service") == 1
    # What it does not know is gone.
    machine.answer("^curl .*:10248/healthz")
    assert configure(machine).status == 0
    assert is_new(machine)
    assert machine.read(KUBELET) == "v1.36.3\n"


@pytest.mark.parametrize(
    ("last", "new"),
    [
        # The static pods are what they were.
        (KUBELET_STARTS, False),
        ("get pod kube-apiserver", True),
        ("kubeadm upgrade apply .*--skip-phases=preflight", True),
    ],
)
def test_an_upgrade_that_is_killed_is_completed(
    make: Callable[..., Machine], last: str, *, new: bool
) -> None:
    machine = before_upgrade(make())
    machine.answer(last, does=KILL_SCRIPT)
    assert configure(machine).status != 0
    assert is_new(machine)
    machine.answer(last, "k8s/kube-apiserver:v1.36.3")
    # An API server that does not become ready lets the last ones come back.
    machine.answer("member list", MEMBERS + OWN_MEMBER)
    machine.answer("^curl .*10.8.0.21:6443/readyz", status=0 if new else 7, times=2)
    assert configure(machine).status == 0
    assert machine.called(LAST_PART)
    assert is_new(machine)
    assert machine.read(KUBELET) == "v1.36.3\n"
    # Now it is over.
    assert configure(machine).status == 0
    assert not machine.called("skip-phases")


def test_an_upgrade_that_is_killed_early_gives_the_kubelet_its_configuration_back(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    written = f"open(here + '/../root/{CONFIG}', 'w').write('new')\n"
    machine.answer("^kubeadm upgrade apply", does=written)
    machine.answer("fake-install programs", does=KILL_SCRIPT)
    assert configure(machine).status != 0
    machine.answer("fake-install kubeadm", status=1)
    assert configure(machine).status == 1
    assert machine.read(CONFIG) == "same\n"


def test_after_a_kill_etcd_does_not_restart_under_the_snapshot(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make(BACKUP_HOURS="6"))
    machine.answer("^crictl stop", does=KILL_SCRIPT)
    assert configure(machine).status != 0
    assert machine.read(KUBELET) == "v1.36.3\n"
    machine.answer("^crictl stop")
    assert configure(machine).status == 0
    machine.order(
        "systemctl stop kubelet", "crictl stop --timeout 10 etcd-1", "systemctl restart kubelet",
        f"systemctl start {BACKUP}",
    )  # fmt: skip


def test_a_file_that_the_new_manifests_name_is_there_before_the_upgrade(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    machine.write("etc/admission.yaml", "new\n")
    machine.answer(
        KUBELET_STARTS, does="open(here + '/../root/etc/kubernetes/admission.yaml').close()"
    )
    result = configure(machine)
    assert result.status == 0, result


def test_the_new_kubelet_does_not_find_the_state_of_another_policy(
    make: Callable[..., Machine],
) -> None:
    machine = before_upgrade(make())
    state = "var/lib/kubelet/cpu_manager_state"
    machine.place(state, '{"policyName":"none"}')
    machine.answer(
        "^kubeadm upgrade apply",
        does=f"open(here + '/../root/{CONFIG}', 'w').write('cpuManagerPolicy: static\\n')",
    )
    machine.answer(KUBELET_STARTS, does=f"assert not os.path.exists(here + '/../root/{state}')")
    result = configure(machine)
    assert result.status == 0, result


def test_there_is_no_way_back(make: Callable[..., Machine]) -> None:
    result = configure(member(make(), "v1.37.0"))
    assert "Kubernetes cannot go back to v1.36.3" in result.log


def test_what_is_left_of_an_upgrade_goes_with_the_cluster(make: Callable[..., Machine]) -> None:
    machine = member(make())
    machine.place(f"{STATE}/upgrade", "v1.36.3\n")
    assert machine.run("control-plane/control-plane.sh", "reset").status == 0
    assert not machine.has(f"{STATE}/upgrade")
