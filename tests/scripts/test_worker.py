"""worker.sh: configure, join, and what an interruption leaves behind."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate

import pytest

from tests.scripts.conftest import CA, COMMON, USERDATA, Machine, Result

STATE = "var/lib/openstack-kubernetes"
CONFIG = "var/lib/kubelet/config.yaml"
DISCOVERY = "run/openstack-kubernetes/discovery.conf"
SEEN = (
    "import shutil\n"
    "source = here + '/../root/run/openstack-kubernetes/discovery.conf'\n"
    "shutil.copy(source, here + '/seen'); shutil.copymode(source, here + '/seen')"
)

# kubeadm refuses its configuration without the file that it names.
READS_DISCOVERY = f"rule['status'] = int(not os.path.exists(here + '/../root/{DISCOVERY}'))"


@pytest.fixture
def worker(make_machine: Callable[[Mapping[str, str]], Machine]) -> Machine:
    """A worker's machine with its folder."""
    machine = make_machine(
        {**COMMON, "ROLE": "worker", "NODE_NAME": "demo-worker-0", "NODE_IP": "10.8.0.41"}
    )
    machine.write("kubeadm-join.yaml", "kind: JoinConfiguration\n")
    machine.place(CONFIG, "old: true\n").chmod(0o644)  # as kubeadm join leaves it
    machine.answer("^kubelet --version", "Kubernetes v1.36.3\n")
    machine.answer("^kubeadm join", does=READS_DISCOVERY)
    return machine


def joined(machine: Machine, version: str = "v1.36.3") -> Machine:
    """The same machine after it has joined."""
    machine.place(f"{STATE}/member", "demo\n")
    machine.place("etc/kubernetes/kubelet.conf")
    machine.place("etc/kubernetes/pki/ca.crt", CA)
    machine.answer("^kubelet --version", f"Kubernetes {version}\n")
    return machine


def join(machine: Machine) -> Result:
    return machine.run("worker/worker.sh", "join", stdin="token: secret\n")


def test_configure_leaves_everything_that_join_needs(worker: Machine) -> None:
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert worker.called("fake-install all")
    for name in ("node.env", "kubeadm-join.yaml", "ca.crt"):
        assert worker.has(f"etc/openstack-kubernetes/{name}")
    assert "bind 127.0.0.1:7443" in worker.read("etc/haproxy/haproxy.cfg")
    assert not worker.called("kubeadm join")


def test_a_node_does_not_get_another_name(worker: Machine) -> None:
    """The drain of the old name would reset the node with the new one."""
    joined(worker)
    assert worker.run("worker/worker.sh", "configure").status == 0
    before = worker.read("etc/openstack-kubernetes/node.env")
    worker.write("node.env", before.replace("demo-worker-0", "demo-worker-1"))
    result = worker.run("worker/worker.sh", "configure")
    assert result.status == 1
    assert "this machine is the node demo-worker-0: take that one out" in result.log
    assert worker.read("etc/openstack-kubernetes/node.env") == before


@pytest.mark.parametrize(
    ("off", "told"),
    [(300, r"is \d+ seconds behind that of the API server at 10\.8\.0\.21"),
     (-300, r"is \d+ seconds ahead of that of the API server at 10\.8\.0\.21"),
     (5, "")],
)  # fmt: skip
def test_a_machine_with_a_wrong_clock_does_not_join(worker: Machine, off: int, told: str) -> None:
    worker.run("worker/worker.sh", "configure")
    worker.environment["CLOCK_TIMEOUT"] = "0"
    worker.answer("^curl .*10.8.0.21:6443/livez", formatdate(time.time() + off, usegmt=True))
    result = join(worker)
    assert (result.status == 0) == (told == "")
    assert bool(worker.called("kubeadm join")) == (told == "")
    assert re.search(
        f"the clock of this machine {told}: certificates" if told else "joined", result.log
    )
    assert worker.called("livez")[0].count("--insecure") == 1


def test_a_machine_whose_clock_is_before_the_clusters_begin_does_not_join(worker: Machine) -> None:
    worker.run("worker/worker.sh", "configure")
    worker.environment["CLOCK_TIMEOUT"] = "0"
    worker.answer("^openssl x509 .*-startdate", "notBefore=Jan  2 03:04:05 2099 GMT\n")
    assert "but the cluster's CA was made at Jan  2 03:04:05 2099 GMT" in join(worker).log
    assert not worker.called("kubeadm join")


def test_the_api_servers_bear_the_probes_of_500_nodes(worker: Machine) -> None:
    worker.run("worker/worker.sh", "configure")
    [line] = re.findall(r"default-server (.*)", worker.read("etc/haproxy/haproxy.cfg"))
    seconds = re.search(r" inter (\d+)s ", line)
    assert seconds is not None
    assert 500 / int(seconds.group(1)) <= 50
    # A server whose connections fail is probed at once, not ten seconds later.
    assert "fastinter 500ms" in line
    assert "observe layer4 error-limit 1 on-error fastinter" in line


def test_the_installed_script_joins_without_a_folder(worker: Machine) -> None:
    worker.run("worker/worker.sh", "configure")
    worker.answer("^kubeadm join", does=SEEN)
    installed = worker.root / "installed"
    shutil.copytree(USERDATA, installed)
    script = ["bash", str(installed / "worker/worker.sh")]
    result = worker.bash([*script, "join"], "token: secret\n")
    assert result.status == 0, result
    config = worker.root / "etc/openstack-kubernetes/kubeadm-join.yaml"
    assert worker.called("kubeadm join") == [
        f"kubeadm join --config {config} --ignore-preflight-errors=Swap"
    ]
    seen = worker.fakes / "seen"
    assert seen.read_text() == "token: secret\n"
    assert seen.stat().st_mode & 0o777 == 0o600
    assert not worker.has(DISCOVERY)
    assert not worker.called("secret")
    worker.place("etc/kubernetes/kubelet.conf")
    assert worker.bash([*script, "state"], "").stdout == "joined\n"


def test_state(worker: Machine) -> None:
    assert worker.run("worker/worker.sh", "state").stdout == "new\n"
    assert joined(worker).run("worker/worker.sh", "state").stdout == "joined\n"


@pytest.mark.parametrize("left", [f"{STATE}/attempt", "etc/kubernetes/bootstrap-kubelet.conf"])
def test_an_interrupted_join_is_cleaned_up_first(worker: Machine, left: str) -> None:
    worker.place(left)
    assert join(worker).status == 0
    worker.order("kubeadm reset --force", "kubeadm join")
    assert worker.has(f"{STATE}/member")
    assert not worker.has(f"{STATE}/attempt")


def test_an_interrupted_join_whose_kubelet_is_in_the_cluster_is_finished(worker: Machine) -> None:
    worker.place(f"{STATE}/attempt", "join\n")
    worker.place("etc/kubernetes/kubelet.conf")
    token = worker.place("etc/kubernetes/bootstrap-kubelet.conf", "token")
    result = worker.run("worker/worker.sh", "finish")
    assert result.status == 0, result
    assert not worker.called("kubeadm")
    assert not token.exists()
    assert (worker.root / CONFIG).stat().st_mode & 0o777 == 0o600
    assert worker.run("worker/worker.sh", "state").stdout == "joined\n"


def test_a_join_that_was_not_interrupted_is_not_finished(worker: Machine) -> None:
    result = worker.run("worker/worker.sh", "finish")
    assert result.status == 1
    assert "no join was interrupted on this machine" in result.log
    assert not worker.has(f"{STATE}/member")


def test_a_join_is_not_finished_by_a_kubelet_that_the_cluster_refuses(worker: Machine) -> None:
    worker.place(f"{STATE}/attempt", "join\n")
    worker.answer("get node demo-worker-0", status=1)
    worker.answer("^systemctl restart kubelet", status=1)
    assert worker.run("worker/worker.sh", "finish").status == 1
    assert not worker.has(f"{STATE}/member")


def test_a_power_cut_during_a_join_does_not_hide_that_it_began(worker: Machine) -> None:
    assert join(worker).status == 0
    # The file, and its name in the folder.
    folder = worker.root / STATE
    worker.order(f"sync -- {folder}/attempt {folder}", "kubeadm join")


def test_no_machine_is_a_member_whose_files_a_power_cut_would_empty(worker: Machine) -> None:
    worker.answer("^sync --file-system", status=1)
    assert join(worker).status == 1
    assert worker.called("kubeadm join")
    assert not worker.has(f"{STATE}/member")


def test_a_failed_join_is_repeated_from_the_start(worker: Machine) -> None:
    worker.answer("^kubeadm join", status=1, complains="no route\n", times=1)
    worker.answer("^journalctl .*kubelet", "kubelet says why\n")
    result = join(worker)
    assert result.status == 1
    assert "no route" in result.log
    assert "kubelet says why" in result.log
    assert not worker.has(DISCOVERY)
    assert not worker.has(f"{STATE}/member")
    worker.answer("^kubeadm join", does=READS_DISCOVERY)
    assert join(worker).status == 0
    worker.order("kubeadm reset --force", "kubeadm join")


def test_a_node_that_has_joined_is_left_alone(worker: Machine) -> None:
    result = join(joined(worker))
    assert result.status == 0
    assert "has joined already" in result.log
    assert not worker.called("kubeadm")
    assert not worker.called("restart")


def test_a_node_whose_node_object_was_deleted_registers_again(worker: Machine) -> None:
    worker.answer("get node demo-worker-0", status=1, times=1)
    assert join(joined(worker)).status == 0
    assert worker.called("systemctl restart kubelet")
    assert not worker.called("kubeadm")


def test_no_join_without_the_api(worker: Machine) -> None:
    worker.answer("^curl .*7443/readyz", status=7)
    result = join(worker)
    assert result.status == 1
    assert "the API does not answer through the node-local HAProxy" in result.log
    assert not worker.called("kubeadm join")


def test_nothing_on_standard_input_is_an_error(worker: Machine) -> None:
    result = worker.run("worker/worker.sh", "join")
    assert "no discovery kubeconfig on standard input" in result.log


def test_configure_again_takes_the_clusters_kubelet_settings(worker: Machine) -> None:
    joined(worker)
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert worker.called("kubeadm upgrade node phase kubelet-config")
    assert not worker.called("systemctl restart kubelet")
    worker.answer(
        "kubelet-config",
        does="open(here + '/../root/var/lib/kubelet/config.yaml', 'w').write('new: true')",
    )
    worker.run("worker/worker.sh", "configure")
    assert worker.called("systemctl restart kubelet")


def test_a_kubelet_does_not_start_with_the_state_of_another_policy(worker: Machine) -> None:
    joined(worker)
    states = {"cpu": "none", "memory": "None"}
    for manager, policy in states.items():
        worker.place(f"var/lib/kubelet/{manager}_manager_state", f'{{"policyName":"{policy}"}}')
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert not worker.called("systemctl stop kubelet")
    worker.answer(
        "kubelet-config",
        does="open(here + '/../root/var/lib/kubelet/config.yaml', 'w')"
        ".write('cpuManagerPolicy: static\\n')",
    )
    assert worker.run("worker/worker.sh", "configure").status == 0
    worker.order("systemctl stop kubelet", "systemctl restart kubelet")
    assert not worker.has("var/lib/kubelet/cpu_manager_state")
    assert worker.has("var/lib/kubelet/memory_manager_state")


def test_a_kubelet_does_not_start_with_the_memory_of_other_reservations(worker: Machine) -> None:
    joined(worker)
    state = "var/lib/kubelet/memory_manager_state"
    worker.place(state, '{"policyName":"Static"}')
    settings = "memoryManagerPolicy: Static\\n"
    write = "open(here + '/../root/var/lib/kubelet/config.yaml', 'w').write"
    worker.answer("kubelet-config", does=f"{write}('{settings}reservedMemory: more\\n')")
    assert worker.run("worker/worker.sh", "configure").status == 0
    worker.order("systemctl stop kubelet", "systemctl restart kubelet")
    assert not worker.has(state)
    # Nothing else has changed since.
    worker.place(state, '{"policyName":"Static"}')
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert worker.has(state)
    assert not worker.called("systemctl stop kubelet")


def test_a_lost_connection_leaves_no_kubelet_stopped(worker: Machine) -> None:
    joined(worker)
    worker.place("var/lib/kubelet/cpu_manager_state", '{"policyName":"static"}')
    worker.answer("^systemctl is-active --quiet kubelet", status=3)
    worker.answer("^systemctl restart kubelet", status=1)
    assert worker.run("worker/worker.sh", "configure").status == 1
    worker.order("systemctl stop kubelet", "systemctl start kubelet")


def test_configure_waits_for_an_api_server_that_restarts(worker: Machine) -> None:
    joined(worker)
    worker.environment["RESTART_TIMEOUT"] = "20"
    worker.answer("kubelet-config", status=1, times=3)
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert len(worker.called("kubelet-config")) == 4


@pytest.mark.parametrize("verb", ["join", "configure"])
def test_only_root_reads_the_kubelets_configuration(worker: Machine, verb: str) -> None:
    done = join(worker) if verb == "join" else joined(worker).run("worker/worker.sh", verb)
    assert done.status == 0, done
    assert (worker.root / CONFIG).stat().st_mode & 0o777 == 0o600


def test_an_interrupted_run_leaves_the_kubelets_restart_to_the_next(worker: Machine) -> None:
    joined(worker)
    worker.answer(
        "kubelet-config",
        does="open(here + '/../root/var/lib/kubelet/config.yaml', 'w').write('new: true')\n"
        # Between it and the script is its time limit.
        "os.kill(int(open(f'/proc/{os.getppid()}/stat').read().split()[3]), 9)",
        times=1,
    )
    assert worker.run("worker/worker.sh", "configure").status == -9
    worker.rules = [rule for rule in worker.rules if not rule["times"]]
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert worker.called("systemctl restart kubelet")
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert not worker.called("systemctl restart kubelet")


def test_another_version_waits_until_the_node_is_drained(worker: Machine) -> None:
    joined(worker, "v1.36.2")
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert not worker.called("fake-install")
    assert not worker.called("kubeadm upgrade")


def test_an_upgrade_goes_in_order(worker: Machine) -> None:
    joined(worker, "v1.36.2")
    assert worker.run("worker/worker.sh", "upgrade").status == 0
    worker.order(
        "fake-install kubeadm",
        "kubeadm upgrade node --ignore",
        "fake-install all",
        "systemctl restart kubelet",
    )


def test_an_upgrade_that_failed_halfway_is_told(worker: Machine) -> None:
    """The kubelet may have the new version by then."""
    joined(worker, "v1.36.2")
    worker.answer("fake-install all", status=1, times=1)
    assert worker.run("worker/worker.sh", "upgrade").status == 1
    assert worker.run("worker/worker.sh", "state").stdout == "upgrading\n"
    worker.answer("fake-install all")
    assert worker.run("worker/worker.sh", "upgrade").status == 0
    assert worker.run("worker/worker.sh", "state").stdout == "joined\n"


def test_a_machine_outside_of_a_cluster_cannot_be_upgraded(worker: Machine) -> None:
    result = worker.run("worker/worker.sh", "upgrade")
    assert result.status == 1
    assert "there is nothing to upgrade" in result.log


@pytest.mark.parametrize(
    "complains",
    [
        "",
        "error: You must be logged in to the server (Unauthorized)\n",
        "Unable to connect to the server: tls: failed to verify certificate: x509: expired\n",
        "Error from server (InternalError): an error on the server\n",
    ],
)
def test_a_node_of_a_living_cluster_is_not_taken(worker: Machine, complains: str) -> None:
    joined(worker).place("etc/kubernetes/pki/ca.crt", "another CA\n")
    worker.answer("get --raw /readyz", status=int(bool(complains)), complains=complains)
    result = worker.run("worker/worker.sh", "configure")
    assert result.status == 1
    assert "node of another cluster that is alive" in result.log
    assert not worker.called("reset")
    assert not worker.has("etc/haproxy/haproxy.cfg")


def test_a_node_of_a_cluster_whose_api_pauses_is_not_taken(worker: Machine) -> None:
    joined(worker).place("etc/kubernetes/pki/ca.crt", "another CA\n")
    worker.environment["OWN_API_TIMEOUT"] = "30"
    worker.answer("kubelet.conf .*get --raw /readyz", status=1, times=3)
    result = worker.run("worker/worker.sh", "configure")
    assert "node of another cluster that is alive" in result.log
    assert not worker.called("kubeadm reset")


def test_a_node_of_a_dead_cluster_is_taken(worker: Machine) -> None:
    joined(worker).place("etc/kubernetes/pki/ca.crt", "another CA\n")
    gone = "Unable to connect to the server: EOF\n"
    worker.answer("kubelet.conf .*get --raw /readyz", status=1, complains=gone)
    assert worker.run("worker/worker.sh", "configure").status == 0
    assert worker.called("kubeadm reset --force")


def test_reset_removes_the_cluster(worker: Machine) -> None:
    joined(worker).place("etc/cni/net.d/05-cilium.conflist")
    assert worker.run("worker/worker.sh", "reset").status == 0
    assert worker.called("kubeadm reset --force")
    assert worker.run("worker/worker.sh", "state").stdout == "new\n"
    assert not worker.has("etc/cni/net.d/05-cilium.conflist")
