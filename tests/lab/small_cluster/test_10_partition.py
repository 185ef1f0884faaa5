"""A worker that the network cuts off, with a pod that writes to a volume."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Self

from lab.cluster import Cluster, openstack, run
from lab.until import until
from tests.lab.small_cluster.pods import execute

# Every line says which pod wrote it, and when.
COUNTER = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: counter}
spec:
  serviceName: counter
  selector: {matchLabels: {app: counter}}
  template:
    metadata: {labels: {app: counter}}
    spec:
      containers:
      - name: counter
        image: docker.io/lab/busybox:1
        imagePullPolicy: Never
        env: [{name: UID_, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]
        command: [sh, -c, "while echo $UID_ $(date +%s) >>/data/log; do sync; sleep 1; done"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


class Partition:
    """A worker that its security groups isolate, until its server no longer runs."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.moved_while_running = False
        self.pod = uid(cluster)
        self._cluster = cluster
        self._port = name
        self._server = openstack("server", "show", name)["id"]
        self._groups = openstack("port", "show", name)["security_group_ids"]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        run("openstack", "port", "set", "--no-security-group", self._port)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.is_set():
            # The pod first: what moves between the two questions moved after the server ran.
            moved = uid(self._cluster) not in ("", self.pod) or not self._is_attached()
            if self._status() not in ("ACTIVE", ""):
                break
            self.moved_while_running |= moved
        # The next server of this name has the same port.
        groups = [f"--security-group={group}" for group in self._groups]
        run("openstack", "port", "set", *groups, self._port)

    def _is_attached(self) -> bool:
        listed = self._cluster.kubectl("get", "volumeattachments", "-o", "json", check=False)
        nodes = [
            each["spec"]["nodeName"] for each in json.loads(listed or '{"items": []}')["items"]
        ]
        return not listed or self._port in nodes

    def _status(self) -> str:
        """The state of the first server; `gone` without it, empty without an answer."""
        listed = json.loads(run("openstack", "server", "list", "-f", "json", check=False) or "null")
        if listed is None:
            return ""
        return next((each["Status"] for each in listed if each["ID"] == self._server), "gone")


def uid(cluster: Cluster) -> str:
    """The pod that counts; empty without one."""
    path = "jsonpath={.metadata.uid}"
    return cluster.kubectl("get", "pod", "counter-0", "-o", path, check=False).strip()


def test_a_worker_that_is_cut_off_is_stopped_before_its_pod_moves(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=COUNTER)
    until(lambda: "counter-0" in cluster.kubectl("get", "pods"), "the pod", 30)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/counter-0", "--timeout=180s")
    with Partition(cluster, "small-worker-0") as partition:
        until(lambda: not cluster.nodes()["small-worker-0"], "a node that is cut off", 120)
        cluster.up("--replace", "**:Instance::small-worker-0")
    assert not partition.moved_while_running
    assert all(cluster.nodes().values())
    cluster.kubectl("wait", "--for=condition=Ready", "pod/counter-0", "--timeout=180s")
    after = uid(cluster)
    assert after != partition.pod
    until(lambda: after in execute(cluster, "counter-0", "cat", "/data/log"), "its first line", 30)
    lines = [
        each.split() for each in execute(cluster, "counter-0", "cat", "/data/log").splitlines()
    ]
    writers = [writer for writer, _ in itertools.groupby(writer for writer, _ in lines)]
    assert writers == [partition.pod, after]
    times = [int(time) for _, time in lines]
    assert times == sorted(times)
    assert cluster.up() == {}
    cluster.kubectl("delete", "statefulset/counter", "pvc/data-counter-0", "--timeout=180s")
    until(lambda: len(openstack("volume", "list")) == 1, "the volume's end", 120)
