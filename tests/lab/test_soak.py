"""Hours of random faults under clients that notice every lost write (`make lab-soak`)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import versions
from lab import image, settings
from lab.cluster import Cluster, left_in_project, run
from lab.until import until
from tests.lab import faults, history, kills, register, volume_writer
from tests.lab.faults import Fault
from tests.lab.health import Health
from tests.lab.soak_table import Happened, Soak, publish

MINUTES = int(os.environ.get("MINUTES") or 120)
# Kubernetes' own restarts of a container that ends again and again wait for five minutes.
PATIENCE = 900
# What to know about a cluster that a fault has broken, before it is destroyed.
EVIDENCE = (
    ("kubectl", "get", "nodes,pods,volumeattachments", "-A", "-o", "wide"),
    ("kubectl", "get", "events", "-A", "--sort-by=.lastTimestamp"),
    ("kubectl", "describe", "nodes"),
    ("openstack", "server", "list"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two gateways, three control planes, two workers; they are destroyed at the end."""
    # Each fault is undone, and the cluster destroyed, also when the test is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
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
    soaked.destroy()
    with soaked.running():
        yield soaked


class Run:
    """One run: what has happened so far, and what the clients were told."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.operations = cluster.stack.folder / f"operations-{seed}"
        self.happened: list[Happened] = []
        self.acknowledged: list[int] = []

    def soak(self) -> None:
        """Let faults happen until the time is over."""
        pauses = random.Random(self.seed)
        end = time.monotonic() + MINUTES * 60
        self.cluster.kubectl("create", "configmap", register.NAME, "--from-literal=number=0")
        with (
            volume_writer.writing(self.cluster, self.acknowledged),
            register.counting(self.cluster.kubeconfig, self.operations),
        ):
            for fault in faults.draw(self.seed):
                time.sleep(pauses.uniform(10, 40))
                if time.monotonic() > end:
                    break
                self._suffer(fault)

    def _suffer(self, fault: Fault) -> None:
        """Let a fault happen, and wait until the cluster is well and both clients write."""
        clock = time.strftime("%H:%M:%S")
        print(f"{clock} {fault.kind}: {fault.where}, {fault.seconds} s", flush=True)
        began = history.now()
        fault.happen(self.cluster)
        health = Health.of(self.cluster, faults.GATEWAYS)
        until(health.check, f"a cluster that is well: {fault}", PATIENCE)
        offset, count = self.operations.stat().st_size, len(self.acknowledged)

        def both_write() -> bool:
            later = self.acknowledged[count:]
            known = history.load(self.operations, offset)
            return bool(history.written(known) and later[-1:] > later[:1])

        until(both_write, f"writes after {fault}", PATIENCE)
        self.happened.append(Happened(kind=fault.kind, began=began, well=history.now()))
        print(f"  well after {history.now() - began:.0f} s", flush=True)
        self.forget_ended_pods()

    def forget_ended_pods(self) -> None:
        """Delete the records of pods that a full disk or a stopped node has ended."""
        ended = ("pods", "-A", "--field-selector=status.phase=Failed", "--wait=false")
        self.cluster.kubectl("delete", *ended, check=False, seconds=60)

    def show_evidence(self) -> None:
        """Print what there is to know about a cluster that is not well."""
        config = str(self.cluster.kubeconfig)
        for command in EVIDENCE:
            print(run("timeout", "60", *command, check=False, KUBECONFIG=config))
        if self.operations.exists():
            print("API:", history.violations(history.load(self.operations))[:20])
        print(*self.happened, sep="\n", flush=True)

    def last_number(self) -> history.Operation:
        """The number in the API, when nothing writes any more."""
        began = history.now()
        words = ("get", "configmap", register.NAME, "-o", "jsonpath={.data.number}")
        number = int(self.cluster.kubectl(*words, seconds=60))
        return history.Operation(
            client=register.CLIENTS,
            began=began,
            ended=history.now(),
            outcome="read",
            value=number,
        )


@kills.SEEDED
def test_no_fault_loses_a_write_and_every_one_is_survived(cluster: Cluster, seed: int) -> None:
    soaked = Run(cluster, seed)
    try:
        soaked.soak()
    except BaseException:
        soaked.show_evidence()
        raise
    last: list[history.Operation] = []
    lines: list[volume_writer.Line] = []

    def read() -> bool:
        last[:] = [soaked.last_number()]
        lines[:] = volume_writer.read(cluster)
        return True

    until(read, "the last number and the file", 300)
    written = [*history.load(soaked.operations), *last]
    table = Soak(
        day=datetime.now(UTC).date(),
        seed=seed,
        minutes=MINUTES,
        program=versions.PROGRAM,
        kubernetes=cluster.stack.outputs()["kubernetesVersion"],
        faults=soaked.happened,
        api=history.written(written),
        volume=[line.time for line in lines],
    )
    print(table.text())
    assert history.violations(written) == []
    assert volume_writer.violations(lines, soaked.acknowledged) == []
    soaked.forget_ended_pods()
    cluster.wait_for_pods(PATIENCE)
    assert all(cluster.nodes().values())
    assert cluster.up() == {}
    publish(table)


def test_a_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}
