"""Fifty updates killed at random: creation, scale, upgrade and roll (`make lab-kills`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab import image, settings
from lab.cluster import Cluster, left_in_project
from lab.image import glance, node, versions
from tests.lab import kills

NEW, OLD = versions.KUBERNETES_RELEASES
SECOND_IMAGE = "node-image-kills"
# How many kills, and after how many seconds at least and at most.
Kills = tuple[int, float, float]
CREATION: Kills = (14, 3, 60)
SCALE: Kills = (12, 3, 30)
UPGRADE: Kills = (12, 3, 60)
ROLL: Kills = (12, 3, 120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One gateway, three control planes, one worker of the older release: nothing is made yet."""
    size = {"gateways": 1, "control_planes": 3, "workers": 1}
    many = Cluster("kills", settings.cluster(image=image.ensure([OLD, NEW]), **size))
    many.stack.configure({"kubernetesVersion": OLD})
    try:
        yield many
    finally:
        many.destroy()


def kill(cluster: Cluster, seed: int, times: Kills, *wanted: Mapping[str, Any]) -> None:
    """Kill updates to these configurations in turn; finish the last, and nothing is left to do."""
    killed = 0
    for number, seconds in enumerate(kills.draw(seed, *times)):
        hit = cluster.killed_up(seconds, **wanted[number % len(wanted)])
        killed += hit
        print(f"{'killed after' if hit else 'done within'} {seconds} s:\n{cluster.recover()}")
    assert killed > 0, "every update was faster: draw shorter times"
    cluster.up(**wanted[-1])
    assert all(cluster.nodes().values())
    assert cluster.up() == {}


@kills.SEEDED
def test_a_creation(cluster: Cluster, seed: int) -> None:
    kill(cluster, seed, CREATION, {})
    assert len(cluster.nodes()) == 4


@kills.SEEDED
def test_scaling_out_and_in(cluster: Cluster, seed: int) -> None:
    kill(cluster, seed + 1, SCALE, {"workerCount": 3}, {"workerCount": 1})
    assert len(cluster.nodes()) == 4


@kills.SEEDED
def test_an_upgrade(cluster: Cluster, seed: int) -> None:
    kill(cluster, seed + 2, UPGRADE, {"kubernetesVersion": NEW})
    shown = cluster.kubectl(
        "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"
    )
    assert set(shown.split()) == {NEW}


@kills.SEEDED
def test_a_roll(cluster: Cluster, seed: int) -> None:
    glance.register(SECOND_IMAGE, node.build([OLD, NEW]), {})
    kill(cluster, seed + 3, ROLL, {"image": SECOND_IMAGE})
    assert len(cluster.etcdctl("kills-control-plane-0", "member", "list").splitlines()) == 3


def test_a_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}
