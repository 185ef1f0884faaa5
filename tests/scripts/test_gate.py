"""gate.sh: a node comes, a node leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.scripts.conftest import COMMON, Machine, Result

VERSION = COMMON["KUBERNETES_VERSION"]
NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
PATCH = '{{"metadata":{{"annotations":{{"openstack-kubernetes-cordoned":{}}}}},"spec":{}}}'
CORDON = PATCH.format('"true"', '{"unschedulable":true}')
UNCORDON = PATCH.format("null", '{"unschedulable":null}')
PODS = (
    "etcd-a demo-control-plane-0 True\n"
    "etcd-b demo-control-plane-1 True\n"
    "etcd-c demo-control-plane-2 True\n"
)


def node(name: str, ready: str = "True", message: str = "fine", **fields: str) -> str:
    """What kubectl prints of a Node."""
    parts = (name, fields.get("cordoned", ""), fields.get("marked", ""),
             fields.get("provider", ""), fields.get("address", "10.8.0.41"),
             fields.get("version", VERSION), ready, message)  # fmt: skip
    return "|".join(parts)


def etcd_member(last: int, name: str) -> str:
    address = f"https://10.8.0.{last}"
    return f"{last}, started, {name}, {address}:2380, {address}:2379, false\n"


def healthy(*lasts: int) -> str:
    return "".join(f"https://10.8.0.{last}:2379 is healthy: successfully\n" for last in lasts)


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A gateway with the folder of a gate; the cluster answers, the node's machine too."""

    def machine(**values: str) -> Machine:
        made = make_machine(
            {
                **COMMON,
                "ROLE": "worker",
                "NODE_NAME": "demo-worker-0",
                "NODE_IP": "10.8.0.41",
                "SSH_USER": "debian",
                **values,
            }
        )
        made.write("kubeconfig", "")
        made.write("ssh_key", "key\n")
        made.write("known_hosts", "10.8.0.41 ecdsa-sha2-nistp256 AAAA\n")
        made.answer("config view --raw", "Q0E=")
        made.answer("get nodes -o", "demo-worker-0 demo-worker-1")
        made.answer("get node demo-worker-0", node("demo-worker-0"))
        made.answer("get node demo-worker-1", node("demo-worker-1"))
        made.answer("^ssh .*worker.sh state", "joined\n")
        made.environment.update(READY_TIMEOUT="1", DETACH_TIMEOUT="1", OTHERS_TIMEOUT="1")
        return made

    return machine


@pytest.fixture
def control_plane(make: Callable[..., Machine]) -> Callable[..., Machine]:
    """The same for the control plane demo-control-plane-2, the third of three."""

    def machine(**values: str) -> Machine:
        made = make(
            ROLE="control-plane", NODE_NAME="demo-control-plane-2", NODE_IP="10.8.0.23", **values
        )
        made.answer(
            "get nodes -o", "demo-control-plane-0 demo-control-plane-1 demo-control-plane-2"
        )
        for name in ("demo-control-plane-0", "demo-control-plane-1", "demo-control-plane-2"):
            made.answer(f"get node {name}", node(name))
        made.answer("get pods -l component=etcd", PODS)
        made.answer(
            "member list",
            etcd_member(21, "demo-control-plane-0")
            + etcd_member(22, "demo-control-plane-1")
            + etcd_member(23, "demo-control-plane-2"),
        )
        made.answer("endpoint health", healthy(21, 22, 23))
        return made

    return machine


def ready(machine: Machine) -> Result:
    return machine.run("cluster/gate.sh", "ready")


def leave(machine: Machine) -> Result:
    return machine.run("cluster/gate.sh", "leave")


# --- ready --------------------------------------------------------------------------------------


def test_a_new_worker_joins_with_a_token_of_its_own(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("get node demo-worker-0", "", times=1)
    result = ready(machine)
    assert result.status == 0, result
    machine.order("create -f -", "worker.sh join", "delete secret bootstrap-token-")
    sent = next(e["stdin"] for e in machine.recorded if "worker.sh join" in e["line"])
    assert "server: https://api.demo.internal:7443" in sent
    token = sent.split("token: ")[1].split()[0].strip('"')
    assert not machine.called(token.split(".")[1])


def test_ssh_checks_the_host_key_it_was_given(make: Callable[..., Machine]) -> None:
    machine = make()
    ready(machine)
    command = machine.called("worker.sh state")[0]
    for option in (
        "StrictHostKeyChecking=yes", "HostKeyAlgorithms=ecdsa-sha2-nistp256", "BatchMode=yes",
        "GlobalKnownHostsFile=/dev/null", "debian@10.8.0.41",
    ):  # fmt: skip
        assert option in command
    assert (machine.folder / "ssh_key").stat().st_mode & 0o777 == 0o600


def test_a_refused_login_is_not_tried_again(make: Callable[..., Machine]) -> None:
    machine = make()
    refusal = "debian@10.8.0.41: Permission denied (publickey).\n"
    machine.answer("^ssh .*worker.sh state", status=255, complains=refusal)
    result = ready(machine)
    assert result.status == 1
    assert "refuses the login: debian@10.8.0.41: Permission denied" in result.log
    assert len(machine.called("worker.sh state")) == 1


def test_a_worker_that_has_joined_is_left_alone(make: Callable[..., Machine]) -> None:
    machine = make()
    assert ready(machine).status == 0
    assert not machine.called("worker.sh join")
    assert not machine.called("create")
    assert not machine.called("patch")


def test_a_kubelet_of_another_version_is_replaced_on_a_drained_node(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true", marked="true"))
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"), times=3)
    result = ready(machine)
    assert result.status == 0, result
    machine.order(CORDON, "drain demo-worker-0", "worker.sh upgrade", UNCORDON)


def test_a_gate_that_was_cut_off_before_its_uncordon_is_finished(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true", marked="true"))
    assert ready(machine).status == 0
    [patch] = machine.called("patch node demo-worker-0")
    assert UNCORDON in patch


def test_a_node_that_somebody_cordoned_stays_so(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true"))
    result = ready(machine)
    assert result.status == 0
    assert "demo-worker-0 stays cordoned: a person has done that, or kured" in result.log
    assert not machine.called("patch")


def test_a_node_that_somebody_cordoned_stays_so_after_its_upgrade(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true"))
    old = node("demo-worker-0", cordoned="true", version="v1.35.4")
    machine.answer("get node demo-worker-0", old, times=3)
    result = ready(machine)
    assert result.status == 0, result
    machine.order("drain demo-worker-0", "worker.sh upgrade")
    assert not machine.called("patch")
    assert "stays cordoned" in result.log


def test_no_node_is_upgraded_while_another_is_ill(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"))
    machine.answer("get node demo-worker-1", node("demo-worker-1", "False", "sick"))
    result = ready(machine)
    assert result.status == 1
    assert "not Ready: demo-worker-1" in result.log
    assert not machine.called("drain")
    assert not machine.called("worker.sh upgrade")


def test_an_ill_node_is_upgraded_though_another_is_ill(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0"))
    old = node("demo-worker-0", "False", "sick", version="v1.35.4")
    machine.answer("get node demo-worker-0", old, times=3)
    machine.answer("get node demo-worker-1", node("demo-worker-1", "False", "sick"))
    result = ready(machine)
    assert result.status == 0, result
    machine.order("drain demo-worker-0", "worker.sh upgrade")


def test_a_node_that_cannot_be_drained_is_not_upgraded(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"))
    machine.answer("drain demo-worker-0", status=1, complains="cannot evict pod")
    machine.environment["DRAIN_TIMEOUT"] = "1"
    result = ready(machine)
    assert result.status == 1
    assert "could not be drained" in result.log
    assert not machine.called("worker.sh upgrade")


def test_a_stale_node_of_an_earlier_machine_goes_first(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    assert ready(machine).status == 0
    machine.order("delete node demo-worker-0", "worker.sh join")


def test_the_name_of_a_living_machine_is_not_taken(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("get node demo-worker-0", node("demo-worker-0", address="10.8.0.77"))
    result = ready(machine)
    assert "Ready at 10.8.0.77, which is not this machine (10.8.0.41)" in result.log
    assert not machine.called("delete node")


def test_labels_and_taints(make: Callable[..., Machine]) -> None:
    machine = make(NODE_LABELS="pool=big,disk=ssd", NODE_TAINTS="gpu=true:NoSchedule")
    assert ready(machine).status == 0
    assert machine.called("label node demo-worker-0 --overwrite pool=big disk=ssd")
    assert machine.called("taint node demo-worker-0 --overwrite gpu=true:NoSchedule")


REMEMBERED = "get node/demo-worker-0"


def test_the_node_remembers_its_labels_and_taints_before_it_gets_them(
    make: Callable[..., Machine],
) -> None:
    machine = make(NODE_LABELS="pool=big,disk=ssd", NODE_TAINTS="gpu=true:NoSchedule")
    assert ready(machine).status == 0
    machine.order(
        "annotate node demo-worker-0 --overwrite openstack-kubernetes-labels=pool disk "
        "openstack-kubernetes-taints=gpu:NoSchedule",
        "label node", "taint node",
    )  # fmt: skip
    assert len(machine.called("annotate")) == 1


def test_labels_and_taints_that_are_not_named_any_more_go(make: Callable[..., Machine]) -> None:
    machine = make(NODE_LABELS="pool=big", NODE_TAINTS="gpu=yes:NoExecute")
    machine.answer(
        REMEMBERED, "pool disk|gpu:NoSchedule old:NoExecute|other:NoSchedule gpu:NoSchedule "
    )
    assert ready(machine).status == 0
    assert machine.called("label node demo-worker-0 --overwrite pool=big disk-")
    [tainted] = machine.called("taint node")
    assert tainted.endswith("--overwrite gpu=yes:NoExecute gpu:NoSchedule-")
    before, after = machine.called("annotate")
    assert before.endswith(
        "labels=pool disk openstack-kubernetes-taints=gpu:NoExecute gpu:NoSchedule"
    )
    assert after.endswith("labels=pool openstack-kubernetes-taints=gpu:NoExecute")


def test_labels_and_taints_of_others_stay(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer(REMEMBERED, "||other:NoSchedule ")
    assert ready(machine).status == 0
    for verb in ("label node", "taint node", "annotate"):
        assert not machine.called(verb)


def test_what_the_node_remembers_already_is_not_noted_again(make: Callable[..., Machine]) -> None:
    machine = make(NODE_LABELS="pool=big")
    machine.answer(REMEMBERED, "pool||")
    assert ready(machine).status == 0
    assert machine.called("label node demo-worker-0 --overwrite pool=big")
    assert not machine.called("annotate")


@pytest.mark.parametrize("message", [NO_NETWORK, f"[{NO_NETWORK}, CSINode is not yet initialized]"])
def test_a_node_may_wait_for_a_network_that_comes_later(
    make: Callable[..., Machine], message: str
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", "False", message))
    result = ready(machine)
    assert result.status == 0
    assert "waits for the network add-on, which is not installed yet: accepted" in result.log


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        (NO_NETWORK, "/lib/modules /etc/cni/net.d"),
        (f"[{NO_NETWORK}, PLEG is not healthy]", ""),
        ("PLEG is not healthy", ""),
    ],
)
def test_any_other_reason_is_waited_for_and_shown(
    make: Callable[..., Machine], message: str, paths: str
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", "False", message))
    machine.answer("get node demo-worker-0 .*range .status.conditions.*=", "Ready=False why\n")
    machine.answer("get daemonsets", paths)
    machine.answer("^ssh .*journalctl", "the kubelet's last words\n")
    machine.rules.insert(0, machine.rules.pop(2))
    result = ready(machine)
    assert result.status == 1
    assert "demo-worker-0 did not become Ready" in result.log
    assert "the kubelet's last words" in result.log


@pytest.fixture
def stuck(make: Callable[..., Machine]) -> Machine:
    """A gate whose node has joined, and whose kubelet never registers."""
    machine = make()
    machine.answer("^kubectl .*get node demo-worker-0", "")
    machine.answer(
        "^kubectl .*get node demo-worker-0 .*conditions", status=1, complains="NotFound\n"
    )
    machine.answer("^kubectl .*get node demo-worker-0 --ignore-not-found", "")
    machine.answer("^ssh .*worker.sh state", "joined\n")
    machine.answer("^ssh .*worker.sh join", "")
    return machine


def test_a_kubelet_that_never_comes_up_is_shown_with_its_unit_and_its_log(stuck: Machine) -> None:
    stuck.answer("^ssh .*is-active kubelet", "activating\n", status=3)
    stuck.answer("^ssh .*journalctl --unit=kubelet", "failed to run Kubelet: swap is on\n")
    result = ready(stuck)
    assert result.status == 1
    assert "unit kubelet.service on demo-worker-0 is activating" in result.log
    assert "  | failed to run Kubelet: swap is on" in result.log
    assert 'node demo-worker-0, gate.sh ready, step "wait for the node"' in result.log
    assert "demo-worker-0 did not become Ready" in result.log


def test_a_machine_that_fell_silent_is_said_to_be_so(stuck: Machine) -> None:
    stuck.answer("^ssh .*(is-active|journalctl)", status=255)
    result = ready(stuck)
    assert result.status == 1
    assert "unit kubelet.service on demo-worker-0 is unknown" in result.log
    assert "(no SSH connection)" in result.log


def test_a_failed_join_shows_why_and_takes_the_token_back(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("^ssh .*worker.sh join", status=1, complains="kubeadm says no\n")
    result = ready(machine)
    assert result.status == 1
    assert "kubeadm says no" in result.log
    assert machine.called("delete secret bootstrap-token-")


def test_without_the_api_it_says_so(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get --raw /readyz", status=1, complains="connection refused\n")
    for verb in ("api", "ready", "leave"):
        machine.environment["API_TIMEOUT"] = "0"
        result = machine.run("cluster/gate.sh", verb)
        assert result.status == 1
        assert "the API does not answer from this gateway: connection refused" in result.log


def test_a_control_plane_is_ready_when_its_own_api_server_is(
    control_plane: Callable[..., Machine],
) -> None:
    machine = control_plane()
    assert ready(machine).status == 0
    assert machine.called("--server=https://10.8.0.23:6443 get --raw /readyz")
    assert not machine.called("ssh")


# --- leave --------------------------------------------------------------------------------------


def test_a_worker_leaves_in_order(make: Callable[..., Machine]) -> None:
    machine = make()
    result = leave(machine)
    assert result.status == 0, result
    machine.order(
        CORDON, "drain demo-worker-0 --ignore-daemonsets --delete-emptydir-data",
        "get volumeattachments", "worker.sh reset", "delete node demo-worker-0",
    )  # fmt: skip
    assert not machine.called("etcdctl")


def test_nothing_is_removed_when_the_drain_fails(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer(" drain ", status=1, complains="cannot evict pod shop/db\n")
    result = leave(machine)
    assert result.status == 1
    assert "cannot evict pod shop/db" in result.log
    assert "could not be drained" in result.log
    assert not machine.called("worker.sh reset")
    assert not machine.called("delete node")


def test_a_machine_that_dies_during_the_drain_is_given_up(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer(" drain ", status=1)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("get node demo-worker-0", node("demo-worker-0"), times=3)
    machine.answer("^ssh ", status=255)
    assert leave(machine).status == 0
    assert len(machine.called(" drain ")) == 1
    assert machine.called("out-of-service=nodeshutdown:NoExecute")


def test_volumes_that_stay_attached_stop_it(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get volumeattachments", "demo-worker-0 pv-1\ndemo-worker-1 pv-2\n")
    result = leave(machine)
    assert result.status == 1
    assert "volumes are still attached to demo-worker-0: pv-1" in result.log
    assert not machine.called("worker.sh reset")


def test_a_healthy_node_stays_while_another_is_ill(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-1", node("demo-worker-1", "Unknown", "silent"))
    result = leave(machine)
    assert result.status == 1
    assert "not Ready: demo-worker-1" in result.log
    assert not machine.called("patch node")


def test_a_node_that_is_just_coming_up_is_waited_for(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-1", node("demo-worker-1", "False", "sick"), times=2)
    result = leave(machine)
    assert result.status == 0, result
    machine.order("get node demo-worker-1", CORDON)


def test_of_two_dead_nodes_each_may_go(make: Callable[..., Machine]) -> None:
    machine = make()
    for name in ("demo-worker-0", "demo-worker-1"):
        machine.answer(f"get node {name}", node(name, "Unknown", "silent"))
    machine.answer("^ssh ", status=255)
    machine.answer(
        "get pods --all-namespaces",
        "kube-system cilium-x DaemonSet\nshop web-1 ReplicaSet\n",
        times=3,
    )
    machine.answer("get volumeattachments", "demo-worker-0 pv-1\n")
    result = leave(machine)
    assert result.status == 0, result
    assert not machine.called(" drain ")
    machine.order(
        "taint node demo-worker-0 --overwrite node.kubernetes.io/out-of-service",
        "delete node demo-worker-0",
    )
    assert "taken for dead" in result.log
    assert "deleting its server detaches them: pv-1" in result.log


def test_a_node_that_is_gone_needs_no_drain(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", "")
    result = leave(machine)
    assert result.status == 0
    assert "nothing to drain" in result.log
    assert not machine.called("patch node")
    assert machine.called("worker.sh reset")


def test_the_node_of_a_successor_is_left_alone(make: Callable[..., Machine]) -> None:
    machine = make(PROVIDER_ID="openstack:///old")
    machine.answer("get node demo-worker-0", node("demo-worker-0", provider="openstack:///new"))
    result = leave(machine)
    assert result.status == 0
    assert "another machine's by now" in result.log
    assert not machine.called("patch node")
    assert not machine.called("delete")


def test_a_control_plane_leaves_etcd_before_its_machine_is_reset(
    control_plane: Callable[..., Machine],
) -> None:
    machine = control_plane()
    result = leave(machine)
    assert result.status == 0, result
    machine.order(
        "endpoint health", " drain ", "member remove 23", "control-plane.sh reset",
        "delete node demo-control-plane-2",
    )  # fmt: skip
    assert not any(" exec etcd-c " in line for line in machine.calls)


def endpoint_status(last: int, *, leads: bool) -> str:
    """A line of `etcdctl endpoint status`."""
    size = "20 MB, 9 MB, 55%, 4.3 GB"
    leading = str(leads).lower()
    versions = "3.6.8, 3.6.0"
    url = f"https://10.8.0.{last}:2379"
    return f"{url}, {last}, {versions}, {size}, {leading}, false, 3, 9, 9, , , false\n"


def test_a_leader_hands_over_before_it_leaves_etcd(control_plane: Callable[..., Machine]) -> None:
    machine = control_plane()
    machine.answer(
        "endpoint status", endpoint_status(21, leads=False) + endpoint_status(23, leads=True)
    )
    result = leave(machine)
    assert result.status == 0, result
    machine.order(
        " drain ", "--endpoints=https://10.8.0.23:2379 move-leader 21", "member remove 23"
    )


def test_who_does_not_lead_hands_nothing_over(control_plane: Callable[..., Machine]) -> None:
    machine = control_plane()
    machine.answer(
        "endpoint status", endpoint_status(21, leads=True) + endpoint_status(23, leads=False)
    )
    assert leave(machine).status == 0
    assert not machine.called("move-leader")


def test_a_leader_that_nobody_relieves_leaves_all_the_same(
    control_plane: Callable[..., Machine],
) -> None:
    machine = control_plane()
    machine.answer("endpoint status", endpoint_status(23, leads=True))
    machine.answer("move-leader", status=1)
    result = leave(machine)
    assert result.status == 0, result
    assert "no other member took the leadership" in result.log
    assert machine.called("member remove 23")


@pytest.mark.parametrize(
    ("members", "well", "status"),
    [
        ((21, 22, 23), (21, 22, 23), 0),
        ((21, 22, 23), (21, 22), 0),
        ((21, 22, 23), (21, 23), 1),
        ((21, 23), (21, 23), 0),
        ((21, 23), (23,), 1),
        ((21, 22, 24, 25, 23), (21, 22, 24, 23), 0),
        ((21, 22, 24, 25, 23), (21, 22, 23), 1),
        ((21, 22), (21, 22), 0),
    ],
)
def test_etcd_keeps_a_healthy_majority(
    control_plane: Callable[..., Machine],
    members: tuple[int, ...],
    well: tuple[int, ...],
    status: int,
) -> None:
    machine = control_plane()
    names = {23: "demo-control-plane-2"}
    machine.answer(
        "member list", "".join(etcd_member(last, names.get(last, f"m{last}")) for last in members)
    )
    machine.answer("endpoint health", healthy(*well), status=len(members) - len(well))
    result = leave(machine)
    assert result.status == status, result
    if status:
        assert "demo-control-plane-2 cannot leave: of the" in result.log
        assert not machine.called("patch node")
        assert not machine.called("member remove")


def test_the_last_control_plane_does_not_leave(control_plane: Callable[..., Machine]) -> None:
    machine = control_plane()
    machine.answer("get nodes -o", "demo-control-plane-2")
    machine.answer("get pods -l component=etcd", "etcd-c demo-control-plane-2 True\n")
    result = leave(machine)
    assert "cannot leave: no other control plane's etcd answers" in result.log
    assert not machine.called("patch node")
