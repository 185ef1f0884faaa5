"""Hours of random faults under clients that notice every lost write (`make lab-soak`)."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import versions
from lab import image, settings
from tests.lab import faults, history, kills, register, volume_writer
from tests.lab.cluster import Cluster, is_ready, left_in_project
from tests.lab.faults import Fault
from tests.lab.gateways import Gateway
from tests.lab.soak_table import Happened, Soak, publish
from tests.smoke.live import until

MINUTES = int(os.environ.get("MINUTES") or 120)
# Kubernetes' own restarts of a container that ends again and again wait for five minutes.
PATIENCE = 900
QUORUM = ("etcd", "kube-apiserver")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two gateways, three control planes, two workers; they are destroyed at the end."""
    size = {
        "gateways": faults.GATEWAYS,
        "control_planes": faults.CONTROL_PLANES,
        "workers": faults.WORKERS,
    }
    keys = settings.cluster(image=image.ensure(), **size)
    # A node whose disk was full takes pods again after half a minute instead of five.
    kubelet = {**settings.KUBELET, "evictionPressureTransitionPeriod": "30s"}
    soaked = Cluster("soak", {**keys, "kubelet": {"extraConfig": kubelet}})
    # What an earlier run in the same lab has left.
    soaked.stack.configure({"apiServer": None})
    with soaked.running():
        yield soaked


def is_well(cluster: Cluster, nodes: set[str], gateways: Sequence[Gateway]) -> bool:
    """Tell whether another fault may happen: no node, gateway or member of a quorum is missing."""
    quorum = [
        is_ready(pod)
        for pod in cluster.pods()
        if pod["metadata"].get("labels", {}).get("component") in QUORUM
    ]
    health = cluster.etcdctl(f"{cluster.name}-control-plane-0", "endpoint", "health", "--cluster")
    return (
        cluster.nodes() == dict.fromkeys(nodes, True)
        and quorum == [True] * len(QUORUM) * faults.CONTROL_PLANES
        and health.count("is healthy") == faults.CONTROL_PLANES
        and all(gateway.boot() for gateway in gateways)
    )


def suffer(cluster: Cluster, fault: Fault, operations: Path, acknowledged: list[int]) -> Happened:
    """Let a fault happen, and wait until the cluster is well and both clients write."""
    clock = time.strftime("%H:%M:%S")
    print(f"{clock} {fault.kind}: {fault.where}, {fault.seconds} s", flush=True)
    gateways = [Gateway(cluster, index) for index in range(faults.GATEWAYS)]
    began = history.now()
    fault.happen(cluster)
    nodes = {each["name"] for each in cluster.stack.outputs()["nodes"]}
    until(lambda: is_well(cluster, nodes, gateways), f"a cluster that is well: {fault}", PATIENCE)
    offset, count = operations.stat().st_size, len(acknowledged)

    def both_write() -> bool:
        later = acknowledged[count:]
        return bool(history.written(history.load(operations, offset)) and later[-1:] > later[:1])

    until(both_write, f"writes after {fault}", PATIENCE)
    well = history.now()
    # Pods that a full disk or a stopped node has ended stay as a record, which has no reader here.
    ended = ("pods", "-A", "--field-selector=status.phase=Failed")
    cluster.kubectl("delete", *ended, check=False)
    return Happened(kind=fault.kind, began=began, well=well)


def soak(cluster: Cluster, seed: int, operations: Path) -> tuple[list[Happened], list[int]]:
    """Let faults happen until the time is over."""
    happened: list[Happened] = []
    pauses = random.Random(seed)
    end = time.monotonic() + MINUTES * 60
    cluster.kubectl("create", "configmap", register.NAME, "--from-literal=number=0")
    with (
        volume_writer.writing(cluster) as acknowledged,
        register.counting(cluster.kubeconfig, operations),
    ):
        for fault in faults.draw(seed):
            time.sleep(pauses.uniform(10, 40))
            if time.monotonic() > end:
                break
            happened.append(suffer(cluster, fault, operations, acknowledged))
    return happened, acknowledged


@kills.SEEDED
def test_no_fault_loses_a_write_and_every_one_is_survived(cluster: Cluster, seed: int) -> None:
    operations = cluster.stack.folder / "operations"
    happened, acknowledged = soak(cluster, seed, operations)
    # The last word has the API itself, when nothing writes any more.
    began, path = history.now(), "jsonpath={.data.number}"
    number = int(cluster.kubectl("get", "configmap", register.NAME, "-o", path))
    last = history.Operation(
        client=register.CLIENTS, began=began, ended=history.now(), outcome="read", value=number
    )
    written, lines = [*history.load(operations), last], volume_writer.read(cluster)
    run = Soak(
        day=datetime.now(UTC).date(),
        seed=seed,
        minutes=MINUTES,
        program=versions.PROGRAM,
        kubernetes=cluster.stack.outputs()["kubernetesVersion"],
        faults=happened,
        api=history.written(written),
        volume=[line.time for line in lines],
    )
    print(run.text())
    assert history.violations(written) == []
    assert volume_writer.violations(lines, acknowledged) == []
    cluster.wait_for_pods(PATIENCE)
    assert all(cluster.nodes().values())
    assert cluster.up() == {}
    publish(run)


def test_a_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}
