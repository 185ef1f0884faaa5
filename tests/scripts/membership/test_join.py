"""join.sh: a node comes into the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scripts.conftest import Machine, Result, signing_request
from tests.scripts.membership.conftest import (
    CORDON,
    UNCORDON,
    answer_nodes,
    kured,
    node,
)

NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)


def join(machine: Machine) -> Result:
    return machine.run("cluster/join.sh", "join")


def test_a_new_worker_joins_with_a_token_of_its_own(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("get node demo-worker-0", "", times=1)
    result = join(machine)
    assert result.status == 0, result
    machine.order("create -f -", "worker.sh join", "delete secret bootstrap-token-")
    sent = next(e["stdin"] for e in machine.recorded if "worker.sh join" in e["line"])
    assert "server: https://api.demo.internal:7443" in sent
    token = sent.split("token: ")[1].split()[0].strip('"')
    assert not machine.called(token.split(".")[1])


OWN = "system:node:demo-worker-0"


def join_with_requests(machine: Machine, *requests: str) -> Result:
    """A new worker joins while the API has these requests."""
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("get node demo-worker-0", "", times=1)
    machine.requests("^ssh .*worker.sh join", *requests)
    result = join(machine)
    assert result.status == 0, result
    [listed, *_] = machine.called("get certificatesigningrequests")
    assert "spec.signerName=kubernetes.io/kube-apiserver-client-kubelet" in listed
    return result


def decided(machine: Machine) -> list[str]:
    return [line.split("certificate ")[1] for line in machine.called(" certificate ")]


def test_a_worker_that_joins_gets_the_certificate_of_its_node(make: Callable[..., Machine]) -> None:
    machine = make()
    own = f"csr-1 system:bootstrap:TOKEN {signing_request(OWN)}\n"
    result = join_with_requests(machine, own, own.replace("csr-1", "csr-2"))
    assert decided(machine) == ["approve csr-1"]
    assert "approved the client certificate of demo-worker-0" in result.log
    machine.order("create -f -", "certificate approve", "delete secret bootstrap-token-")


@pytest.mark.parametrize(
    "wanted",
    [
        signing_request("system:node:demo-control-plane-0"),
        signing_request(OWN, organization="system:masters"),
        "bm8gcmVxdWVzdA==",
    ],
    ids=["another node", "another group", "no request"],
)
def test_what_a_token_asks_for_besides_is_denied(make: Callable[..., Machine], wanted: str) -> None:
    machine = make()
    result = join_with_requests(
        machine,
        f"csr-1 system:bootstrap:TOKEN {wanted}\n",
        f"csr-2 system:bootstrap:TOKEN {signing_request(OWN)}\n",
    )
    assert decided(machine) == ["deny csr-1", "approve csr-2"]
    assert "which is not its own: denied" in result.log


@pytest.mark.parametrize("user", ["system:bootstrap:abcdef", OWN, "system:node:demo-worker-1"])
def test_no_one_but_the_token_gets_the_certificate(make: Callable[..., Machine], user: str) -> None:
    machine = make()
    join_with_requests(machine, f"csr-1 {user} {signing_request(OWN)}\n")
    assert decided(machine) == []


SERVER = "openstack:///7f3c"


@pytest.fixture
def unchanged(make: Callable[..., Machine]) -> Machine:
    """A worker that says that it is new, on the server that its Node is of."""
    machine = make(PROVIDER_ID=SERVER)
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("get node demo-worker-0", node("demo-worker-0", provider=SERVER))
    return machine


def test_a_server_that_is_a_node_already_gets_no_other_token(unchanged: Machine) -> None:
    unchanged.answer("^ssh .*worker.sh finish", status=1, complains="no join was interrupted\n")
    result = join(unchanged)
    assert result.status == 1
    assert "no join was interrupted" in result.log
    assert f"its Node belongs to this same server ({SERVER}): it gets no token" in result.log
    assert "delete the Node, then run again: kubectl delete node demo-worker-0" in result.log
    for never in ("create -f -", "delete node", "worker.sh join"):
        assert not unchanged.called(never)


def test_an_interrupted_join_ends_without_another_token(unchanged: Machine) -> None:
    result = join(unchanged)
    assert result.status == 0, result
    unchanged.order("worker.sh state", "worker.sh finish")
    for never in ("create -f -", "delete node", "worker.sh join"):
        assert not unchanged.called(never)


def test_another_server_of_this_name_takes_the_place_of_its_node(unchanged: Machine) -> None:
    unchanged.answer("get node demo-worker-0", node("demo-worker-0", provider="openstack:///0aa1"))
    assert join(unchanged).status == 0
    unchanged.order("delete node demo-worker-0", "create -f -", "worker.sh join")


def test_a_node_serves_with_a_certificate_of_the_cluster_before_it_gets_pods(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true", marked="true"))
    machine.environment["READY_TIMEOUT"] = "30"
    machine.answer("get --raw /api/v1/nodes/demo-worker-0/proxy/healthz", status=1, times=2)
    result = join(machine)
    assert result.status == 0, result
    machine.order(
        "get certificatesigningrequests",
        "label node demo-worker-0 --overwrite "
        "node-restriction.kubernetes.io/openstack-kubernetes-address=10.8.0.41",
        UNCORDON,
    )


def test_a_kubelet_whose_node_was_deleted_registers_it_again(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.environment.update(REGISTER_SECONDS="0", READY_TIMEOUT="5")
    machine.answer("get node demo-worker-0", "", times=2)
    machine.answer("get node demo-worker-0", node("demo-worker-0"), times=2)  # before the wait
    result = join(machine)
    assert result.status == 0, result
    machine.order("sudo -n systemctl restart kubelet.service", "label node")


def test_the_node_of_a_control_plane_is_not_registered_without_its_role(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    machine.environment.update(REGISTER_SECONDS="0")
    machine.answer("get node demo-control-plane-2", "")
    result = join(machine)
    assert result.status == 1
    assert "--replace '**:Command::demo-control-plane-2-membership'" in result.log
    assert not machine.called("systemctl restart kubelet")


def test_a_node_that_joins_leaves_the_requests_of_others_to_them(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.environment["READY_TIMEOUT"] = "30"
    machine.answer("get --raw /api/v1/nodes/demo-worker-0/proxy/healthz", status=1, times=1)
    machine.answer("get certificatesigningrequests", "csr-1 system:node:demo-worker-1 AAAA\n")
    result = join(machine)
    assert result.status == 0, result
    assert not machine.called("certificate approve")
    assert "demo-worker-1" not in result.log


def test_a_kubelet_that_the_api_server_does_not_trust_fails_the_join(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.environment["READY_TIMEOUT"] = "0"
    machine.answer(
        "get --raw /api/v1/nodes/demo-worker-0/proxy/healthz", status=1, complains="x509: unknown\n"
    )
    result = join(machine)
    assert result.status == 1
    assert "does not trust the kubelet of demo-worker-0: x509: unknown" in result.log


def test_ssh_checks_the_host_key_it_was_given(make: Callable[..., Machine]) -> None:
    machine = make()
    join(machine)
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
    result = join(machine)
    assert result.status == 1
    assert "refuses the login: debian@10.8.0.41: Permission denied" in result.log
    assert len(machine.called("worker.sh state")) == 1


def test_a_worker_that_has_joined_is_left_alone(make: Callable[..., Machine]) -> None:
    machine = make()
    assert join(machine).status == 0
    assert not machine.called("worker.sh join")
    assert not machine.called("create")
    assert not machine.called("patch")


def test_a_node_says_how_many_of_its_pool_may_be_unhealthy(make: Callable[..., Machine]) -> None:
    machine = make(POOL="worker", MAX_UNHEALTHY="10%")
    assert join(machine).status == 0
    assert machine.called(
        "annotate node demo-worker-0 --overwrite openstack-kubernetes-pool=worker "
        "openstack-kubernetes-max-unhealthy=10%"
    )
    machine.answer("get node demo-worker-0", node("demo-worker-0", pool="worker", limit="10%"))
    assert join(machine).status == 0
    assert not machine.called("annotate")


def test_a_kubelet_of_another_version_is_replaced_on_a_drained_node(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true", marked="true"))
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"), times=3)
    result = join(machine)
    assert result.status == 0, result
    machine.order(CORDON, "drain demo-worker-0", "worker.sh upgrade", UNCORDON)


def test_an_interrupted_run_is_finished_by_its_uncordon(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true", marked="true"))
    assert join(machine).status == 0
    [patch] = machine.called("patch node demo-worker-0")
    assert UNCORDON in patch


def test_a_node_is_uncordoned_though_the_api_did_not_answer_for_a_moment(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    cordoned = node("demo-worker-0", cordoned="true", marked="true")
    machine.answer("get node demo-worker-0", cordoned)
    machine.answer("get node demo-worker-0", status=1, times=1)
    machine.answer("get node demo-worker-0", cordoned, times=3)
    machine.environment["READY_TIMEOUT"] = "30"
    machine.answer("get --raw /api/v1/nodes/demo-worker-0/proxy/healthz", status=1, times=1)
    result = join(machine)
    assert result.status == 0, result
    assert machine.called(UNCORDON)


def test_a_node_that_someone_cordoned_stays_so(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true"))
    result = join(machine)
    assert result.status == 0
    assert (
        "demo-worker-0 stays cordoned, because an administrator or kured cordoned it" in result.log
    )
    assert not machine.called("patch")


def test_a_node_that_someone_cordoned_stays_so_after_its_upgrade(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", cordoned="true"))
    old = node("demo-worker-0", cordoned="true", version="v1.35.4")
    machine.answer("get node demo-worker-0", old, times=3)
    result = join(machine)
    assert result.status == 0, result
    machine.order("drain demo-worker-0", "worker.sh upgrade")
    assert not machine.called("patch")
    assert "stays cordoned" in result.log


def test_an_upgrade_that_ended_when_the_kubelet_was_new_is_completed(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "upgrading\n")
    cordoned = node("demo-worker-0", cordoned="true", marked="true")
    machine.answer("get node demo-worker-0", cordoned)
    result = join(machine)
    assert result.status == 0, result
    machine.order("drain demo-worker-0", "worker.sh upgrade", UNCORDON)


def test_no_node_is_upgraded_while_kured_reboots_it(make: Callable[..., Machine]) -> None:
    machine = make()
    kured(machine, "demo-worker-0")
    machine.environment["REBOOT_TIMEOUT"] = "1"
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"))
    result = join(machine)
    assert result.status == 1
    assert "kured reboots demo-worker-0." in result.log
    assert not machine.called("worker.sh upgrade")


def test_no_node_is_upgraded_while_another_is_unhealthy(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"))
    answer_nodes(machine, node("demo-worker-0"), node("demo-worker-1", "False", "sick"))
    result = join(machine)
    assert result.status == 1
    assert "not Ready: demo-worker-1" in result.log
    assert not machine.called("drain")
    assert not machine.called("worker.sh upgrade")


def test_an_unhealthy_node_is_upgraded_though_another_is_unhealthy(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0"))
    old = node("demo-worker-0", "False", "sick", version="v1.35.4")
    machine.answer("get node demo-worker-0", old, times=3)
    answer_nodes(machine, node("demo-worker-0"), node("demo-worker-1", "False", "sick"))
    result = join(machine)
    assert result.status == 0, result
    machine.order("drain demo-worker-0", "worker.sh upgrade")


def test_a_node_that_cannot_be_drained_is_not_upgraded(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", version="v1.35.4"))
    machine.answer("drain demo-worker-0", status=1, complains="cannot evict pod")
    machine.environment["DRAIN_TIMEOUT"] = "1"
    result = join(machine)
    assert result.status == 1
    assert "could not be drained" in result.log
    assert not machine.called("worker.sh upgrade")


def test_a_stale_node_of_an_earlier_machine_goes_first(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    assert join(machine).status == 0
    machine.order("delete node demo-worker-0", "worker.sh join")


def test_the_name_of_a_living_machine_is_not_taken(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("get node demo-worker-0", node("demo-worker-0", address="10.8.0.77"))
    result = join(machine)
    assert "Ready at 10.8.0.77, which is not this machine (10.8.0.41)" in result.log
    assert not machine.called("delete node")


def test_labels_and_taints(make: Callable[..., Machine]) -> None:
    machine = make(NODE_LABELS="pool=big,disk=ssd", NODE_TAINTS="gpu=true:NoSchedule")
    assert join(machine).status == 0
    assert machine.called("label node demo-worker-0 --overwrite pool=big disk=ssd")
    assert machine.called("taint node demo-worker-0 --overwrite gpu=true:NoSchedule")


RECORDED = "get node/demo-worker-0"


def test_labels_and_taints_are_recorded_before_they_are_set(
    make: Callable[..., Machine],
) -> None:
    machine = make(NODE_LABELS="pool=big,disk=ssd", NODE_TAINTS="gpu=true:NoSchedule")
    assert join(machine).status == 0
    machine.order(
        "annotate node demo-worker-0 --overwrite openstack-kubernetes-labels=pool disk "
        "openstack-kubernetes-taints=gpu:NoSchedule",
        "label node", "taint node",
    )  # fmt: skip
    assert len(machine.called("annotate")) == 1


def test_labels_and_taints_that_are_no_longer_configured_are_removed(
    make: Callable[..., Machine],
) -> None:
    machine = make(NODE_LABELS="pool=big", NODE_TAINTS="gpu=yes:NoExecute")
    machine.answer(
        RECORDED, "pool disk|gpu:NoSchedule old:NoExecute|other:NoSchedule gpu:NoSchedule "
    )
    assert join(machine).status == 0
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
    machine.answer(RECORDED, "||other:NoSchedule ")
    assert join(machine).status == 0
    for verb in ("taint node", "annotate"):
        assert not machine.called(verb)
    [labeled] = machine.called("label node")
    assert labeled.endswith("openstack-kubernetes-address=10.8.0.41")


def test_what_is_recorded_already_is_not_recorded_again(make: Callable[..., Machine]) -> None:
    machine = make(NODE_LABELS="pool=big")
    machine.answer(RECORDED, "pool||")
    assert join(machine).status == 0
    assert machine.called("label node demo-worker-0 --overwrite pool=big")
    assert not machine.called("annotate")


@pytest.mark.parametrize("message", [NO_NETWORK, f"[{NO_NETWORK}, CSINode is not yet initialized]"])
def test_a_node_may_wait_for_a_network_that_comes_later(
    make: Callable[..., Machine], message: str
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", "False", message))
    result = join(machine)
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
    machine.answer("get node demo-worker-0 -o", "Ready=False why\n")
    machine.answer("get daemonsets", paths)
    machine.answer("^ssh .*journalctl", "the kubelet's last words\n")
    result = join(machine)
    assert result.status == 1
    assert "demo-worker-0 did not become Ready" in result.log
    assert "  | Ready=False why" in result.log
    assert "the kubelet's last words" in result.log


@pytest.fixture
def stuck(make: Callable[..., Machine]) -> Machine:
    """A node that has joined, and whose kubelet never registers."""
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
    result = join(stuck)
    assert result.status == 1
    assert "unit kubelet.service on demo-worker-0 is activating" in result.log
    assert "  | failed to run Kubelet: swap is on" in result.log
    assert 'node demo-worker-0, join.sh join, step "wait for the node"' in result.log
    assert "demo-worker-0 did not become Ready" in result.log


def test_a_machine_without_ssh_is_named(stuck: Machine) -> None:
    stuck.answer("^ssh .*(is-active|journalctl)", status=255)
    result = join(stuck)
    assert result.status == 1
    assert "unit kubelet.service on demo-worker-0 is unknown" in result.log
    assert "(no SSH connection)" in result.log


def test_a_failed_join_shows_why_and_deletes_its_token(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^ssh .*worker.sh state", "new\n")
    machine.answer("^ssh .*worker.sh join", status=1, complains="swap is on\n")
    result = join(machine)
    assert result.status == 1
    assert "swap is on" in result.log
    assert machine.called("delete secret bootstrap-token-")


def test_without_the_api_it_says_so(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get --raw /readyz", status=1, complains="connection refused\n")
    machine.environment["API_TIMEOUT"] = "0"
    # Otherwise it would have nothing to leave.
    machine.answer("^ssh .*/attempt", "/var/lib/openstack-kubernetes/member\n")
    for script, verb in (("api", "wait"), ("join", "join"), ("drain", "drain")):
        result = machine.run(f"cluster/{script}.sh", verb)
        assert result.status == 1
        assert "the API does not answer from this gateway: connection refused" in result.log


def test_a_control_plane_is_ready_when_its_own_api_server_is(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    assert join(machine).status == 0
    assert machine.called("--server=https://10.8.0.23:6443 get --raw /readyz")
    assert not machine.called("ssh")
