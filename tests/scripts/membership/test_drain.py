"""drain.sh: a node goes out of the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.scripts.conftest import Machine, Result
from tests.scripts.membership.conftest import (
    CORDON,
    LOCK,
    answer_nodes,
    etcd_member,
    healthy,
    kured,
    node,
)


def drain(machine: Machine) -> Result:
    return machine.run("cluster/drain.sh", "drain")


def test_a_worker_is_drained_in_order(make: Callable[..., Machine]) -> None:
    machine = make()
    result = drain(machine)
    assert result.status == 0, result
    machine.order(
        CORDON, "drain demo-worker-0 --ignore-daemonsets --delete-emptydir-data",
        "get volumeattachments", "worker.sh reset", "delete node demo-worker-0",
    )  # fmt: skip
    assert not machine.called("etcdctl")


def test_nothing_is_removed_when_the_drain_fails(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer(" drain ", status=1, complains="cannot evict pod shop/db\n")
    result = drain(machine)
    assert result.status == 1
    assert "cannot evict pod shop/db" in result.log
    assert "could not be drained" in result.log
    assert not machine.called("worker.sh reset")
    assert not machine.called("delete node")


SERVER = "openstack:///server"
OUT_OF_SERVICE = "taint node demo-worker-0 --overwrite node.kubernetes.io/out-of-service"


def test_a_machine_that_dies_during_the_drain_is_abandoned(make: Callable[..., Machine]) -> None:
    machine = make(PROVIDER_ID=SERVER)
    machine.answer(" drain ", status=1)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("get node demo-worker-0", node("demo-worker-0"), times=4)
    machine.answer("^ssh ", status=255)
    assert drain(machine).status == 0
    assert len(machine.called(" drain ")) == 1
    assert not machine.called("delete node")


def test_a_kubelet_that_is_not_heard_of_for_a_moment_ends_its_pods_itself(
    make: Callable[..., Machine],
) -> None:
    """As after an API that was away during the drain."""
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"), times=5)
    machine.answer("get node demo-worker-0", node("demo-worker-0"), times=4)
    machine.answer(" drain ", status=1, times=1)
    machine.environment["HEARD_TIMEOUT"] = "30"
    result = drain(machine)
    assert result.status == 0, result
    assert len(machine.called(" drain ")) == 2
    assert not machine.called("taint")


def test_a_dead_server_keeps_its_pods_until_it_is_stopped(make: Callable[..., Machine]) -> None:
    machine = make(PROVIDER_ID=SERVER)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("^ssh ", status=255)
    result = drain(machine)
    assert result.status == 0, result
    assert not machine.called("taint")
    assert not machine.called("delete")
    assert "its Node and its pods stay until its server is stopped" in result.log


def test_a_dead_server_that_lets_ssh_in_and_answers_nothing_is_not_waited_for(
    make: Callable[..., Machine],
) -> None:
    """As when its disk hangs."""
    machine = make(PROVIDER_ID=SERVER)
    machine.environment["ANSWER_TIMEOUT"] = "1"
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("^ssh .*instance-id", does="import time; time.sleep(50)")
    result = drain(machine)
    assert result.status == 0, result
    assert not machine.called("worker.sh reset")
    assert not machine.called("delete")
    assert "its Node and its pods stay until its server is stopped" in result.log


def test_a_dead_control_plane_leaves_etcd_before_its_server_is_stopped(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane(PROVIDER_ID=SERVER)
    name = "demo-control-plane-2"
    machine.answer(f"get node {name}", node(name, "Unknown", "silent"))
    machine.answer("^ssh ", status=255)
    assert drain(machine).status == 0
    assert machine.called("member remove 23")
    assert not machine.called(f"delete node {name}")


def test_of_a_dead_machine_that_is_no_server_a_person_must_say_that_it_is_off(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("^ssh ", status=255)
    machine.answer("get node demo-worker-0 .*taints", "node.kubernetes.io/unreachable")
    result = drain(machine)
    assert result.status == 1
    assert (
        "kubectl taint node demo-worker-0 "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in result.log
    )
    assert not machine.called("taint node")
    assert not machine.called("delete")

    machine.answer(
        "get node demo-worker-0 .*taints",
        "node.kubernetes.io/unreachable node.kubernetes.io/out-of-service",
    )
    result = drain(machine)
    assert result.status == 0, result
    assert machine.called("delete node demo-worker-0")


def test_the_node_of_a_living_machine_that_is_no_server_stays_until_it_is_reset(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("^ssh ", status=255, complains="Connection refused\n")
    result = drain(machine)
    assert result.status == 1
    assert "no SSH connection to 10.8.0.41: Connection refused" in result.log
    assert not machine.called("delete node")


def test_a_connection_that_is_lost_is_not_taken_for_a_machine_that_was_never_configured(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("^ssh .*test -e", status=255)
    result = drain(machine)
    assert result.status == 1
    assert "no SSH connection to 10.8.0.41" in result.log
    assert not machine.called("delete node")
    machine.answer("^ssh .*test -e", "missing\n")
    result = drain(machine)
    assert result.status == 0, result
    assert "never configured" in result.log
    assert not machine.called("worker.sh reset")
    assert machine.called("delete node")


@pytest.mark.parametrize("other", ["demo/demo-worker-1", "other/demo-worker-0"])
def test_a_machine_that_is_no_server_and_another_node_by_now_is_not_reset(
    make: Callable[..., Machine], other: str
) -> None:
    machine = make()
    machine.answer("^ssh .*node.env", f"{other}\n")
    result = drain(machine)
    assert result.status == 0, result
    assert "is another node by now: not reset" in result.log
    assert not machine.called("worker.sh reset")
    machine.answer("^ssh .*node.env", "demo/demo-worker-0\n")
    assert drain(machine).status == 0
    assert machine.called("worker.sh reset")


@pytest.mark.parametrize("provider_id", ["", SERVER])
def test_a_dead_kubelet_on_a_machine_that_answers_needs_no_fence_and_no_word(
    make: Callable[..., Machine], provider_id: str
) -> None:
    machine = make(PROVIDER_ID=provider_id)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("^ssh .*cat /var/lib/cloud/data/instance-id", "server\n")
    result = drain(machine)
    assert result.status == 0, result
    machine.order("worker.sh reset", OUT_OF_SERVICE, "delete node demo-worker-0")


@pytest.mark.parametrize(
    ("pattern", "prints", "status"),
    [("crictl ps", "4f5e", 0), ("crictl ps", "", 1), ("worker.sh reset", "", 1)],
)
def test_a_dead_kubelet_whose_containers_may_still_run_needs_a_fence(
    make: Callable[..., Machine], pattern: str, prints: str, status: int
) -> None:
    machine = make(PROVIDER_ID=SERVER)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("^ssh .*cat /var/lib/cloud/data/instance-id", "server\n")
    machine.answer(f"^ssh .*{pattern}", prints, status=status)
    result = drain(machine)
    assert result.status == 0, result
    assert "its pods stay until its server is stopped" in result.log
    assert not machine.called("taint")
    assert not machine.called("delete")


def test_a_reset_that_stops_no_container_does_not_say_that_a_machine_is_off(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("get node demo-worker-0 .*taints", "node.kubernetes.io/unreachable")
    machine.answer("^ssh .*crictl ps", "4f5e")
    result = drain(machine)
    assert result.status == 1
    assert "Switch the machine off" in result.log
    assert not machine.called("delete")


ENDING = "shop web-1 2026-01-01T00:00:00Z ReplicaSet\nshop db-0 2026-01-01T00:00:00Z \n"
DAEMON = "kube-system cilium-x  DaemonSet\n"


def test_a_node_whose_kubelet_ends_no_pod_is_abandoned(make: Callable[..., Machine]) -> None:
    machine = make(PROVIDER_ID=SERVER)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "False", "no containerd"))
    machine.answer(" drain ", status=1)
    machine.answer("get pods --all-namespaces", ENDING + DAEMON)
    machine.answer("^ssh ", status=255)
    result = drain(machine)
    assert result.status == 0, result
    assert "does not end these pods: shop/web-1 shop/db-0" in result.log
    assert len(machine.called(" drain ")) == 1
    assert not machine.called("taint")
    assert not machine.called("delete node")


@pytest.mark.parametrize(
    ("ready", "pods"),
    [
        ("True", ENDING),
        ("False", ENDING + "shop api-1  ReplicaSet\n"),
        ("False", ENDING + "shop api-1  \n"),
        ("False", ENDING.replace("2026", "2126")),
        ("False", DAEMON),
    ],
)
def test_a_node_whose_pods_are_not_all_stuck_is_not_abandoned(
    make: Callable[..., Machine], ready: str, pods: str
) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", ready, "sick"))
    machine.answer(" drain ", status=1)
    machine.answer("get pods --all-namespaces", pods)
    result = drain(machine)
    assert result.status == 1
    assert "could not be drained" in result.log
    assert not machine.called("worker.sh reset")


def test_a_drain_survives_an_api_that_does_not_answer_for_a_moment(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.answer(" drain ", status=1, times=1)
    machine.answer("get node demo-worker-0", status=1, times=5)
    machine.answer("get node demo-worker-0", node("demo-worker-0"), times=2)
    result = drain(machine)
    assert result.status == 0, result
    assert machine.called("delete node demo-worker-0")


NO_API = "get --raw /readyz"
NOTED = "^ssh .*/attempt"
SERVED = "/var/lib/openstack-kubernetes/served\n"


def test_a_lost_control_plane_leaves_without_the_api_that_its_successor_brings_back(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane(PROVIDER_ID="openstack:///old")
    machine.answer(NO_API, status=1)
    machine.answer("^ssh .*cat /var/lib/cloud/data/instance-id", "new\n")
    result = drain(machine)
    assert result.status == 0, result
    assert "another one by now: nothing to leave" in result.log
    for never in ("get node", "member remove", "control-plane.sh reset"):
        assert not machine.called(never)


@pytest.mark.parametrize(
    ("noted", "leaves"),
    [("", True), ("init\n", True), ("join\n", False), (f"init\n{SERVED}", False), (SERVED, False)],
)
def test_without_an_api_only_a_machine_that_was_never_in_the_cluster_leaves(
    make_control_plane: Callable[..., Machine], noted: str, leaves: bool
) -> None:
    machine = make_control_plane(PROVIDER_ID="openstack:///own")
    machine.answer(NO_API, status=1)
    machine.answer("^ssh .*cat /var/lib/cloud/data/instance-id", "own\n")
    machine.answer(NOTED, noted)
    result = drain(machine)
    assert (result.status == 0) is leaves, result
    assert ("has never been in the cluster" in result.log) is leaves
    assert ("the API does not answer from this gateway" in result.log) is not leaves


def test_without_an_api_a_machine_that_does_not_answer_stays(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane(PROVIDER_ID="openstack:///own")
    machine.answer(NO_API, status=1)
    machine.answer("^ssh", status=255)
    result = drain(machine)
    assert result.status == 1
    assert "the API does not answer from this gateway" in result.log


def test_volumes_that_stay_attached_stop_it(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get volumeattachments", "demo-worker-0 pv-1\ndemo-worker-1 pv-2\n")
    result = drain(machine)
    assert result.status == 1
    assert "volumes are still attached to demo-worker-0: pv-1" in result.log
    assert not machine.called("worker.sh reset")


def test_volumes_of_daemonsets_stay_attached_without_stopping_it(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    machine.environment["DETACH_TIMEOUT"] = "30"
    machine.answer("get pods .*go-template", "logs/agent-x-buffer\n")
    machine.answer("get persistentvolumes", "pv-1 logs/agent-x-buffer\npv-2 shop/db\npv-3 /\n")
    machine.answer("get volumeattachments", "demo-worker-0 pv-1\n")
    machine.answer("get volumeattachments", "demo-worker-0 pv-1\ndemo-worker-0 pv-2\n", times=2)
    result = drain(machine)
    assert result.status == 0, result
    assert len(machine.called("get volumeattachments")) == 3
    assert machine.called("worker.sh reset")


LOCAL = "demo-worker-0 pv-1 (claim shop/db)\ndemo-worker-1 pv-2 (claim shop/web)\n"


@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_a_node_with_local_volumes_stays(make: Callable[..., Machine], ready: str) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", node("demo-worker-0", ready))
    machine.answer("get persistentvolumes -o go-template", LOCAL + "demo-worker-0 pv-3 (claim a/b)")
    result = drain(machine)
    assert result.status == 1
    assert "disk: pv-1 (claim shop/db), pv-3 (claim a/b). Move the data" in result.log
    assert "set deleteLocalVolumes for its pool" in result.log
    assert not machine.called("patch node")
    assert len(machine.called("get persistentvolumes")) == 1


def test_a_node_whose_local_volumes_may_be_lost_leaves(make: Callable[..., Machine]) -> None:
    machine = make(DELETE_LOCAL_VOLUMES="true")
    machine.answer("get persistentvolumes -o go-template", LOCAL)
    assert drain(machine).status == 0
    assert machine.called("delete node demo-worker-0")


def test_local_volumes_of_other_nodes_do_not_matter(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get persistentvolumes -o go-template", LOCAL.replace("worker-0", "worker-01"))
    assert drain(machine).status == 0


def test_a_node_stays_while_its_local_volumes_are_unknown(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get persistentvolumes", status=1)
    result = drain(machine)
    assert result.status == 1
    assert "the persistent volumes could not be read from the API" in result.log
    assert not machine.called("patch node")


def test_a_healthy_node_stays_while_another_is_unhealthy(make: Callable[..., Machine]) -> None:
    machine = make()
    answer_nodes(machine, node("demo-worker-0"), node("demo-worker-1", "Unknown", "silent"))
    result = drain(machine)
    assert result.status == 1
    assert "not Ready: demo-worker-1" in result.log
    assert not machine.called("patch node")


def pool(down: int, limit: str, *, size: int = 20, name: str = "worker") -> list[str]:
    """The Nodes of a pool, the last of them down."""
    return [
        node(
            f"demo-{name}-{index}",
            "True" if index < size - down else "Unknown",
            "silent",
            pool=name,
            limit=limit,
        )
        for index in range(size)
    ]


@pytest.mark.parametrize(
    ("down", "limit", "status"),
    [
        (2, "10%", 0),
        (3, "10%", 1),
        (1, "4%", 1),
        (3, "3", 0),
        (4, "3", 1),
        (1, "0", 1),
        (9, "09", 0),
        (1, "a[$(echo $HOME >&2)]%", 1),
    ],
)
def test_a_pool_may_have_its_share_of_unhealthy_nodes(
    make: Callable[..., Machine], down: int, limit: str, status: int
) -> None:
    machine = make()
    answer_nodes(machine, *pool(down, limit))
    result = drain(machine)
    assert result.status == status, result
    assert ("not Ready: demo-worker-" in result.log) == bool(status)
    assert "maxUnhealthy" in result.log or not status


def test_every_pool_has_a_share_of_its_own(make: Callable[..., Machine]) -> None:
    machine = make()
    answer_nodes(machine, *pool(2, "10%"), *pool(1, "50%", size=2, name="gpu"))
    assert drain(machine).status == 0
    answer_nodes(machine, *pool(0, "10%"), *pool(1, "10%", size=2, name="gpu"))
    result = drain(machine)
    assert result.status == 1
    assert "not Ready: demo-gpu-1." in result.log


def test_a_node_that_is_down_counts_by_the_limit_of_the_others(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    answer_nodes(machine, *pool(0, "50%", size=3), *pool(1, "0", size=1))
    assert drain(machine).status == 0


def test_no_share_covers_a_control_plane(make: Callable[..., Machine]) -> None:
    machine = make()
    down = node("demo-control-plane-1", "Unknown", "silent")
    answer_nodes(machine, down, *pool(1, "100%"))
    result = drain(machine)
    assert result.status == 1
    assert "not Ready: demo-control-plane-1." in result.log


def test_a_node_that_is_just_coming_up_is_waited_for(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.environment["OTHERS_TIMEOUT"] = "30"
    coming_up = node("demo-worker-1", "False", "sick\nin two lines")
    answer_nodes(machine, node("demo-worker-0"), coming_up, times=2)
    result = drain(machine)
    assert result.status == 0, result
    machine.order("get nodes -o", CORDON)
    assert len(machine.called("get nodes -o")) == 3


def test_all_other_nodes_are_read_at_once(make: Callable[..., Machine]) -> None:
    machine = make()
    answer_nodes(machine, *(node(f"demo-worker-{index}") for index in range(20)))
    assert drain(machine).status == 0
    assert len(machine.called("get nodes -o")) == 1
    assert not machine.called("get node demo-worker-1")


def test_without_a_list_of_nodes_none_is_drained(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get nodes -o", status=1)
    result = drain(machine)
    assert result.status == 1
    assert "not Ready: unknown, because the API did not list the nodes" in result.log
    assert not machine.called("patch node")


def test_of_two_dead_nodes_each_may_go(make: Callable[..., Machine]) -> None:
    machine = make()
    dead = [node(f"demo-worker-{index}", "Unknown", "silent") for index in range(2)]
    answer_nodes(machine, *dead)
    machine.answer("get node demo-worker-0", dead[0])
    machine.answer("^ssh ", status=255)
    machine.answer("get node demo-worker-0 .*taints", "node.kubernetes.io/out-of-service")
    machine.answer(
        "get pods --all-namespaces",
        "kube-system cilium-x DaemonSet\nshop web-1 ReplicaSet\n",
        times=3,
    )
    machine.answer("get volumeattachments", "demo-worker-0 pv-1\n")
    result = drain(machine)
    assert result.status == 0, result
    assert not machine.called(" drain ")
    machine.order(OUT_OF_SERVICE, "delete node demo-worker-0")
    assert "considered dead" in result.log
    assert "deleting its server detaches them: pv-1" in result.log


def test_a_node_that_is_gone_needs_no_drain(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get node demo-worker-0", "")
    result = drain(machine)
    assert result.status == 0
    assert "nothing to drain" in result.log
    assert not machine.called("patch node")
    assert machine.called("worker.sh reset")


def test_the_node_of_a_successor_is_left_alone(make: Callable[..., Machine]) -> None:
    machine = make(PROVIDER_ID="openstack:///old")
    machine.answer("get node demo-worker-0", node("demo-worker-0", provider="openstack:///new"))
    result = drain(machine)
    assert result.status == 0
    assert "demo-worker-0 is another machine by now" in result.log
    assert not machine.called("patch node")
    assert not machine.called("delete")


@pytest.mark.parametrize(("reads", "status"), [(1, 0), (2, 1), (3, 1), (4, 0)])
def test_a_drain_that_stood_still_leaves_the_successor_alone(
    make_control_plane: Callable[..., Machine], reads: int, status: int
) -> None:
    machine = make_control_plane(PROVIDER_ID="openstack:///old")
    name = "demo-control-plane-2"
    machine.answer(f"get node {name}", node(name, provider="openstack:///new"))
    machine.answer(f"get node {name}", node(name, provider="openstack:///old"), times=reads)
    result = drain(machine)
    assert "another machine" in result.log
    assert result.status == status
    assert not machine.called("member remove")
    assert not machine.called(f"delete node {name}")
    assert bool(machine.called("patch node")) == (reads > 1)
    assert bool(machine.called(" drain ")) == (reads > 3)


@pytest.mark.parametrize("registered", ["", node("demo-control-plane-2", "False", "starting")])
def test_the_etcd_member_of_a_successor_is_left_alone(
    make_control_plane: Callable[..., Machine], registered: str
) -> None:
    machine = make_control_plane(PROVIDER_ID="openstack:///old")
    machine.answer("get node demo-control-plane-2", registered)
    machine.answer("^ssh .*cat /var/lib/cloud/data/instance-id", "new\n")
    result = drain(machine)
    assert result.status == 0, result
    assert "demo-control-plane-2 is another machine by now" in result.log
    for never in ("member remove", "control-plane.sh reset", "delete node"):
        assert not machine.called(never)


def test_the_etcd_member_of_a_machine_that_is_gone_is_removed(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane(PROVIDER_ID="openstack:///old")
    machine.answer("get node demo-control-plane-2", "")
    machine.answer("^ssh", status=255)
    result = drain(machine)
    assert result.status == 0, result
    assert machine.called("member remove 23")


def test_the_etcd_member_is_removed_before_its_machine_is_reset(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    result = drain(machine)
    assert result.status == 0, result
    machine.order(
        "endpoint health", " drain ", "member remove 23", "control-plane.sh reset",
        "delete node demo-control-plane-2",
    )  # fmt: skip
    assert not any(" exec etcd-c " in line for line in machine.calls)


@pytest.mark.parametrize("request_", ["get pods .*go-template", "member remove", "delete node"])
def test_requests_at_the_end_of_a_drain_are_repeated(
    make_control_plane: Callable[..., Machine], request_: str
) -> None:
    machine = make_control_plane()
    # Both of the other members are asked.
    machine.answer(request_, status=1, times=2)
    result = drain(machine)
    assert result.status == 0, result
    assert machine.called("member remove 23")
    assert machine.called("delete node")


def endpoint_status(last: int, *, leads: bool) -> str:
    """A line of `etcdctl endpoint status`."""
    size = "20 MB, 9 MB, 55%, 4.3 GB"
    leading = str(leads).lower()
    versions = "3.6.8, 3.6.0"
    url = f"https://10.8.0.{last}:2379"
    return f"{url}, {last}, {versions}, {size}, {leading}, false, 3, 9, 9, , , false\n"


def test_a_leader_hands_over_before_it_is_removed(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    machine.answer(
        "endpoint status", endpoint_status(21, leads=False) + endpoint_status(23, leads=True)
    )
    result = drain(machine)
    assert result.status == 0, result
    machine.order(
        " drain ", "--endpoints=https://10.8.0.23:2379 move-leader 21", "member remove 23"
    )


def test_a_member_that_does_not_lead_hands_nothing_over(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    machine.answer(
        "endpoint status", endpoint_status(21, leads=True) + endpoint_status(23, leads=False)
    )
    assert drain(machine).status == 0
    assert not machine.called("move-leader")


def test_a_leader_without_a_successor_is_removed_all_the_same(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    machine.answer("endpoint status", endpoint_status(23, leads=True))
    machine.answer("move-leader", status=1)
    result = drain(machine)
    assert result.status == 0, result
    assert "no other member took over the leadership" in result.log
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
    make_control_plane: Callable[..., Machine],
    members: tuple[int, ...],
    well: tuple[int, ...],
    status: int,
) -> None:
    machine = make_control_plane()
    names = {23: "demo-control-plane-2"}
    machine.answer(
        "member list", "".join(etcd_member(last, names.get(last, f"m{last}")) for last in members)
    )
    machine.answer("endpoint health", healthy(*well), status=len(members) - len(well))
    result = drain(machine)
    assert result.status == status, result
    if status:
        assert "demo-control-plane-2 cannot be removed: of the" in result.log
        assert not machine.called("patch node")
        assert not machine.called("member remove")


def test_a_member_that_has_never_started_is_not_healthy(
    make_control_plane: Callable[..., Machine],
) -> None:
    machine = make_control_plane()
    members = [etcd_member(21, "m21"), "22, unstarted, , https://10.8.0.22:2380, , false\n"]
    machine.answer("member list", "".join([*members, etcd_member(23, "demo-control-plane-2")]))
    machine.answer("endpoint health", healthy(21, 23))
    result = drain(machine)
    assert "of the 2 other etcd members 1 are healthy" in result.log
    assert not machine.called("patch node")


@pytest.mark.parametrize("answer", ["", "21, started, demo-control-plane-0, https://10.8"])
def test_a_control_plane_stays_while_the_members_of_etcd_are_unknown(
    make_control_plane: Callable[..., Machine], answer: str
) -> None:
    machine = make_control_plane()
    machine.answer("member list", answer)
    result = drain(machine)
    assert result.status == 1
    assert "demo-control-plane-2 cannot be removed" in result.log
    assert not machine.called("patch node")


def test_the_last_control_plane_stays(make_control_plane: Callable[..., Machine]) -> None:
    machine = make_control_plane()
    answer_nodes(machine, node("demo-control-plane-2"))
    machine.answer("get pods -l component=etcd", "etcd-c demo-control-plane-2 True\n")
    result = drain(machine)
    assert "cannot be removed: no other control plane's etcd answers" in result.log
    assert not machine.called("patch node")


@pytest.mark.parametrize(("limit", "hours"), [("10800", 4), ("86400", 25)])
def test_kured_reboots_no_node_while_one_is_drained(
    make: Callable[..., Machine], limit: str, hours: int
) -> None:
    machine = make()
    kured(machine)
    machine.environment["DRAIN_TIMEOUT"] = limit
    assert drain(machine).status == 0
    [hold] = machine.called(f"annotate daemonset kured --overwrite --resource-version=41 {LOCK}=")
    value = json.loads(hold.partition(f"{LOCK}=")[2])
    age = datetime.now(UTC) - datetime.fromisoformat(value["created"])
    assert timedelta(0) <= age < timedelta(minutes=5)
    assert (value["nodeID"], value["TTL"]) == ("openstack-kubernetes", hours * 3600 * 10**9)
    machine.order("annotate daemonset kured", "get nodes -o", CORDON)


def test_no_node_is_drained_while_kured_reboots_another(make: Callable[..., Machine]) -> None:
    machine = make()
    kured(machine, "demo-control-plane-0")
    machine.environment["REBOOT_TIMEOUT"] = "1"
    result = drain(machine)
    assert result.status == 1
    assert "kured reboots demo-control-plane-0." in result.log
    assert f"kubectl -n kured annotate daemonset kured {LOCK}-" in result.log
    assert not machine.called("annotate")
    assert not machine.called("patch node")


def test_a_drain_continues_when_kured_is_done(make: Callable[..., Machine]) -> None:
    machine = make()
    kured(machine)
    kured(machine, "demo-control-plane-0", times=2)
    result = drain(machine)
    assert result.status == 0, result
    assert machine.called("annotate daemonset kured")


def test_the_lock_of_a_node_that_leaves_ends_by_itself(make: Callable[..., Machine]) -> None:
    machine = make()
    kured(machine, "demo-worker-0")
    assert drain(machine).status == 0
    [hold] = machine.called("annotate daemonset kured --overwrite --resource-version=41")
    value = json.loads(hold.partition(f"{LOCK}=")[2])
    assert (value["nodeID"], value["TTL"] > 0) == ("openstack-kubernetes", True)
    machine.order(CORDON, "annotate daemonset kured", "delete node")


@pytest.mark.parametrize("holder", ["manual", "demo-worker-9", "A person"])
def test_a_lock_that_lets_no_other_node_reboot_stays(
    make: Callable[..., Machine], holder: str
) -> None:
    machine = make()
    kured(machine, holder)
    assert drain(machine).status == 0
    assert not machine.called("annotate daemonset kured")


def test_the_programs_own_lock_is_prolonged(make: Callable[..., Machine]) -> None:
    machine = make()
    kured(machine, "openstack-kubernetes")
    assert drain(machine).status == 0
    assert machine.called("annotate daemonset kured")


def test_the_lock_of_a_longer_drain_is_not_shortened(make: Callable[..., Machine]) -> None:
    machine = make()
    kured(machine, "openstack-kubernetes", hours=7)
    assert drain(machine).status == 0
    assert not machine.called("annotate daemonset kured")


def test_a_dead_node_does_not_wait_for_kured(make: Callable[..., Machine]) -> None:
    machine = make(PROVIDER_ID=SERVER)
    machine.answer("get node demo-worker-0", node("demo-worker-0", "Unknown", "silent"))
    machine.answer("^ssh ", status=255)
    kured(machine, "demo-control-plane-0")
    assert drain(machine).status == 0
