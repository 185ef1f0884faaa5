"""Workers that are added, and workers that leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from lab.cluster import Cluster, openstack
from tests.lab.traffic import repeated

# What of kured a drain looks at.
KURED = """
apiVersion: v1
kind: Namespace
metadata: {name: kured}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kured, namespace: kured}
spec:
  selector: {matchLabels: {app: kured}}
  template:
    metadata: {labels: {app: kured}}
    spec:
      nodeSelector: {lab: none}
      containers: [{name: kured, image: docker.io/lab/busybox:1}]
"""


def test_adding_a_worker_touches_no_other_machine(cluster: Cluster) -> None:
    before = {s["Name"]: s["ID"] for s in openstack("server", "list")}
    changes = cluster.up(workerCount=2)
    after = {s["Name"]: s["ID"] for s in openstack("server", "list")}
    assert cluster.nodes()["small-worker-1"]
    assert before.items() <= after.items()
    assert set(changes) == {"create"}


def test_a_worker_that_leaves_is_drained_first(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=KURED)
    cluster.up(workerCount=1)
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    daemon_set = json.loads(
        cluster.kubectl("-n", "kured", "get", "daemonset", "kured", "-o", "json")
    )
    lock = json.loads(daemon_set["metadata"]["annotations"]["weave.works/kured-node-lock"])
    assert lock["nodeID"] == "openstack-kubernetes"
    cluster.kubectl("delete", "namespace", "kured")


@contextmanager
def cordons(cluster: Cluster) -> Iterator[list[int]]:
    """Collect the numbers of cordoned nodes, asked again and again."""
    numbers: list[int] = []
    listing = ("get", "nodes", "--field-selector=spec.unschedulable=true", "-o", "name")

    def ask() -> None:
        numbers.append(len(cluster.kubectl(*listing, check=False).split()))

    with repeated(ask, 0.2):
        yield numbers


def test_workers_that_the_last_update_created_leave_one_at_a_time(cluster: Cluster) -> None:
    cluster.up(workerCount=3)
    with cordons(cluster) as numbers:
        cluster.up(workerCount=1)
    assert max(numbers) == 1
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
