"""Rollouts on never fewer machines than configured, by the runbook in docs/operations.md."""

from __future__ import annotations

from lab import settings
from lab.cluster import Cluster, openstack
from lab.image import glance, node, versions
from tests.lab.ready_nodes import fewest, ready_nodes


def test_a_pool_under_another_name_is_ready_before_the_old_one_leaves(cluster: Cluster) -> None:
    pool = {"count": 1, "flavor": "lab.2c3g"}
    cluster.up(workerPools=[{**pool, "name": "blue"}])
    with ready_nodes(cluster) as seen:
        cluster.up(workerPools=[{**pool, "name": "green"}])
    assert fewest(seen, "blue", "green") >= 1
    workers = {name for name in cluster.nodes() if "control-plane" not in name}
    assert workers == {"one-green-0", "one-worker-0"}
    cluster.up(workerPools=[])
    assert cluster.nodes() == {"one-control-plane-0": True, "one-worker-0": True}


def test_a_single_control_plane_is_replaced_with_two_to_spare(cluster: Cluster) -> None:
    name = "one-control-plane-0"
    glance.register("spare-image-2", node.build([versions.KUBERNETES]), {})
    nodes = cluster.stack.outputs()["nodes"]
    before = {server["Name"]: server["ID"] for server in openstack("server", "list")}
    cluster.up(controlPlaneCount=3)
    role = settings.cluster(image="spare-image-2")["controlPlane"]
    with ready_nodes(cluster) as seen:
        cluster.up(controlPlane={**role, "image": "spare-image-2"})
    assert fewest(seen, "control-plane") >= 2
    cluster.up(controlPlaneCount=1)
    assert cluster.nodes() == {name: True, "one-worker-0": True}
    [member] = cluster.etcdctl(name, "member", "list").splitlines()
    assert name in member
    after = {server["Name"]: server["ID"] for server in openstack("server", "list")}
    assert after.keys() == before.keys()
    assert [each for each in after if after[each] != before[each]] == [name]
    assert cluster.stack.outputs()["nodes"] == nodes
    assert cluster.up() == {}
