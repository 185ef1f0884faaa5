"""Workers that are added, and workers that leave."""

from __future__ import annotations

import json
import threading
from typing import Self

from tests.lab.cluster import Cluster, openstack

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


class Cordons:
    """The most workers that were cordoned at the same time, while this is open."""

    def __init__(self, cluster: Cluster) -> None:
        self.most = 0
        self._cluster = cluster
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        listing = ("get", "nodes", "--field-selector=spec.unschedulable=true", "-o", "name")
        while not self._ended.wait(0.2):
            cordoned = self._cluster.kubectl(*listing, check=False).split()
            self.most = max(self.most, len(cordoned))


def test_workers_that_the_last_update_created_leave_one_at_a_time(cluster: Cluster) -> None:
    cluster.up(workerCount=3)
    with Cordons(cluster) as cordons:
        cluster.up(workerCount=1)
    assert cordons.most == 1
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
