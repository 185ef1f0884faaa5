"""A highly available cluster: two gateways, three control planes, changing workers, faults."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab import image, settings
from lab.cloud import layout
from lab.cluster import UP, Cluster, is_ready, left_in_project, run
from lab.image import glance, node, versions
from lab.poll import Poll
from lab.until import until
from tests.lab import kills
from tests.lab.gateways import Gateway
from tests.lab.ready_nodes import fewest, ready_nodes
from tests.lab.traffic import crash, longest_silence

# Looks a name up every second; each line has the times before and after it, and the outcome.
RESOLVER = """
apiVersion: v1
kind: Pod
metadata: {name: resolver}
spec:
  nodeName: ha-worker-0
  containers:
  - name: resolver
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command:
    - sh
    - -c
    - |
      while sleep 1; do
        read before rest </proc/uptime
        nslookup -type=a kubernetes.default.svc.cluster.local >/dev/null && out=ok || out=failed
        read after rest </proc/uptime
        echo $before $after $out
      done
"""

CONTROL_PLANES = ["ha-control-plane-0", "ha-control-plane-1", "ha-control-plane-2"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The cluster; it is destroyed at the end, also after a failure."""
    ha = Cluster("ha", settings.cluster(image=image.ensure()))
    with ha.running():
        yield ha


def test_every_node_is_ready(cluster: Cluster) -> None:
    assert cluster.nodes() == dict.fromkeys([*CONTROL_PLANES, "ha-worker-0", "ha-worker-1"], True)


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}


def delete_node(cluster: Cluster, name: str) -> None:
    """Delete a Node as soon as it is there, as the cloud controller manager may do it."""
    until(lambda: name in cluster.nodes(), f"the Node {name}", 300)
    cluster.kubectl("delete", "node", name)


def test_workers_join_and_leave_and_the_others_stay(cluster: Cluster) -> None:
    before = cluster.servers()
    with ThreadPoolExecutor() as pool:
        deleted = pool.submit(delete_node, cluster, "ha-worker-2")
        cluster.up(workerCount=3)
        deleted.result()
    assert cluster.nodes()["ha-worker-2"]
    cluster.up(workerCount=1)
    assert sorted(cluster.nodes()) == [*CONTROL_PLANES, "ha-worker-0"]
    after = cluster.servers()
    assert after.items() <= before.items()
    cluster.up(workerCount=2)


def test_a_control_plane_deleted_behind_the_programs_back_is_replaced(cluster: Cluster) -> None:
    run("openstack", "server", "delete", "--wait", "ha-control-plane-0")
    cluster.up("--refresh")
    assert cluster.nodes() == dict.fromkeys([*CONTROL_PLANES, "ha-worker-0", "ha-worker-1"], True)
    members = cluster.etcdctl("ha-control-plane-1", "member", "list")
    assert sorted(line.split(", ")[2] for line in members.splitlines()) == CONTROL_PLANES


@kills.SEEDED
def test_a_killed_update_is_finished_by_the_next_one(cluster: Cluster, seed: int) -> None:
    # One more worker takes about half a minute. `make lab-kills` has many more kills.
    [seconds] = kills.draw(seed, 1, 4, 25)
    cluster.killed_up(seconds, workerCount=3)
    cluster.recover()
    cluster.up(workerCount=3)
    assert cluster.nodes()["ha-worker-2"]
    cluster.up(workerCount=2)


def coredns(cluster: Cluster, *, everywhere: bool) -> list[str]:
    """Nodes of the Ready pods of the DaemonSet, or of kubeadm's Deployment."""
    ready = [(pod["metadata"].get("labels", {}), pod) for pod in cluster.pods() if is_ready(pod)]
    return sorted(
        pod["spec"]["nodeName"]
        for labels, pod in ready
        if labels.get("k8s-app") == "kube-dns"
        and ("app.kubernetes.io/name" in labels) is everywhere
    )


def test_the_loss_of_a_node_costs_no_lookup_more_than_five_seconds(cluster: Cluster) -> None:
    nodes = sorted(cluster.nodes())
    until(lambda: coredns(cluster, everywhere=True) == nodes, "CoreDNS on every node", 180)
    until(lambda: len(coredns(cluster, everywhere=False)) == 2, "kubeadm's own CoreDNS", 180)
    # Each on another machine: one of them is not that of the pod that asks.
    lost = next(node for node in coredns(cluster, everywhere=False) if node != "ha-worker-0")
    assert len(set(coredns(cluster, everywhere=False))) == 2
    cluster.kubectl("apply", "-f", "-", stdin=RESOLVER)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/resolver", "--timeout=120s")

    def lookups() -> list[tuple[float, str]]:
        lines = (line.split() for line in cluster.kubectl("logs", "resolver").splitlines())
        return [(float(after) - float(before), outcome) for before, after, outcome in lines]

    until(lambda: len(lookups()) > 10, "the first lookups", 60)
    before = len(lookups())
    crash(cluster.servers()[lost])
    try:
        # From then on no one asks the pods that are lost.
        until(lambda: not cluster.nodes()[lost], "the lost node to be NotReady", 120)
        during = lookups()[before:]
    finally:
        run("openstack", "server", "reboot", "--hard", lost)
        until(lambda: all(cluster.nodes().values()), "ready nodes", 300)
        cluster.kubectl("delete", "pod", "resolver", "--now")
    print(f"{len(during)} lookups, the longest {max(seconds for seconds, _ in during):.2f} s")
    assert len(during) > 30
    assert [outcome for _, outcome in during if outcome != "ok"] == []
    assert max(seconds for seconds, _ in during) < 5


def test_an_image_change_rolls_one_node_at_a_time(cluster: Cluster) -> None:
    glance.register("node-image-2", node.build([versions.KUBERNETES]), {})
    before = cluster.servers()
    cluster.stack.configure({"image": "node-image-2"})
    with Poll(cluster.endpoint) as poll, ready_nodes(cluster) as seen:
        said = cluster.stack.pulumi(*UP, capture=True).stdout
    print(said)
    after = cluster.servers()
    assert sorted(after) == sorted(before)
    assert not set(after.values()) & set(before.values())
    assert all(cluster.nodes().values())
    assert fewest(seen, "control-plane") == len(CONTROL_PLANES) - 1
    assert fewest(seen, "worker") == 1
    # Whichever gateway had the VIP before: when the last one's turn comes, the VIP is there.
    assert "ha-gateway-1 gave the floating IP to another gateway" in said
    # A gateway's turn moves the VIP; a poll or two may fall into each move.
    assert poll.failed < 50, poll.failed
    assert poll.longest < 5, poll.longest


def test_an_image_that_is_replaced_and_deleted_in_the_cloud_rolls_nothing(cluster: Cluster) -> None:
    before = cluster.servers()
    rename = ("openstack", "image", "set", "--name", "node-image-gone", "node-image-2")
    run(*rename, OS_CLOUD=layout.ADMIN_CLOUD)
    glance.register("node-image-2", node.build([versions.KUBERNETES]), {})
    cluster.up("--refresh")
    run("openstack", "image", "delete", "node-image-gone", OS_CLOUD=layout.ADMIN_CLOUD)
    cluster.up("--refresh")
    assert cluster.servers() == before
    cluster.up("--replace", "**:Instance::ha-worker-1")
    assert all(cluster.nodes().values())


def test_a_gateway_leaves_and_returns_and_two_are_never_active(cluster: Cluster) -> None:
    first, second = Gateway(cluster, 0), Gateway(cluster, 1)
    took_over = "sudo journalctl --unit=keepalived | grep -c 'Entering MASTER STATE'"
    # The other one hands over if it is active; a gateway becomes active in no other way.
    expected = int(first.ssh(took_over)) + (0 if first.is_active() else 1)
    with Poll(cluster.endpoint) as poll:
        cluster.up(gatewayCount=1)
        assert first.is_active()
        cluster.up(gatewayCount=2)
    assert first.is_active()
    assert second.boot_id()
    assert not second.is_active()
    assert int(first.ssh(took_over)) == expected
    # The new one has a journal of its own.
    assert second.ssh(f"{took_over} || true").strip() == "0"
    assert poll.longest < 3, poll.longest


def test_gateways_that_are_all_dead_are_replaced_by_one_update(cluster: Cluster) -> None:
    before = cluster.servers()
    gateways = ["ha-gateway-0", "ha-gateway-1"]
    cluster.stop(*gateways)
    cluster.up(*(flag for name in gateways for flag in ("--replace", f"**:Instance::{name}")))
    after = cluster.servers()
    assert {name for name in before if before[name] != after[name]} == set(gateways)
    assert all(cluster.nodes().values())
    assert cluster.up() == {}


# From a node through its own HAProxy: when each request ended, and its status.
ASK = """for i in $(seq 150); do
  curl -sk -m 5 -o /dev/null -w '%{http_code} ' https://127.0.0.1:7443/readyz
  date +%s.%N
  sleep 0.2
done"""
SILENT = (
    "sudo nft add table inet lab",
    "sudo nft 'add chain inet lab input { type filter hook input priority -10; }'",
    "sudo nft add rule inet lab input tcp dport 6443 drop",
)


def test_a_node_passes_by_an_api_server_that_falls_silent(cluster: Cluster) -> None:
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(cluster.ssh, "ha-worker-0", ASK)
        # The cluster's commands take seconds: the requests have begun by then.
        try:
            cluster.ssh(CONTROL_PLANES[2], " && ".join(SILENT))
            lines = [line.split() for line in asked.result().splitlines()]
        finally:
            cluster.ssh(CONTROL_PLANES[2], "sudo nft delete table inet lab")
    times = [float(time) for status, time in lines if status == "200"]
    longest = longest_silence(times)
    print(f"{len(lines) - len(times)} requests failed, {longest:.1f} s of silence at most")
    assert len(times) > 100
    assert longest < 4
    until(lambda: all(cluster.nodes().values()), "ready nodes", 120)


def test_destroy_ends_when_the_api_is_gone_and_leaves_nothing(cluster: Cluster) -> None:
    for name in CONTROL_PLANES:
        run("openstack", "server", "delete", "--wait", name)
    cluster.destroy()
    assert left_in_project() == {}
    assert len(cluster.stack.resources()) <= 1
