"""An upgrade of three clusters in waves: it stops at a bad one, continues, and can be killed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lab import image, settings
from lab.cluster import Cluster
from lab.image import versions
from lab.until import until
from tests.lab import kills

NEW, OLD = versions.KUBERNETES_RELEASES
NETWORKS = {"wave-a": "10.8.0.0/22", "wave-b": "10.8.4.0/22", "wave-c": "10.8.8.0/22"}
FIRST, *LATER = NETWORKS
# Seconds for two upgrades at the same time.
LONGEST = 1200


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, Cluster]]:
    """Clusters of the older release, one machine of each role; the image has both."""
    keys = settings.cluster(image=image.ensure([OLD, NEW]), gateways=1, control_planes=1, workers=1)
    made = {
        name: Cluster(name, {**keys, "hostCidr": network, "kubernetesVersion": OLD})
        for name, network in NETWORKS.items()
    }
    with ExitStack() as stack, ThreadPoolExecutor(len(made)) as pool:
        for cluster in made.values():
            stack.enter_context(cluster.configured_in_the_checkout())
            stack.callback(cluster.destroy)
        list(pool.map(lambda cluster: cluster.up(), made.values()))
        yield made


def kubelets(clusters: Mapping[str, Cluster]) -> dict[str, set[str]]:
    """Cluster -> the versions of its kubelets."""
    return {
        name: {
            node["status"]["nodeInfo"]["kubeletVersion"]
            for node in json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        }
        for name, cluster in clusters.items()
    }


def test_it_stops_at_the_first_cluster_that_fails_the_check(
    clusters: Mapping[str, Cluster],
) -> None:
    check = f"kubectl get node {LATER[0]}-worker-0"
    said = clusters[FIRST].fleet(
        "upgrade", "--to", NEW, "--yes", "--check", check, *NETWORKS, statuses=(1,)
    )
    assert f"{FIRST}: `{check}` failed" in said
    assert not [name for name in LATER if f"{name}: upgrading" in said]
    assert kubelets(clusters) == {FIRST: {NEW}, **{name: {OLD} for name in LATER}}


@kills.SEEDED
def test_killed_in_a_wave_of_two_it_continues(clusters: Mapping[str, Cluster], seed: int) -> None:
    words = ("upgrade", "--to", NEW, "--yes", "--wave", "2", *NETWORKS)
    moment = kills.moment(random.Random(seed), 1, 120)
    assert clusters[FIRST].killed_fleet(f"{LATER[0]}: upgrading", moment, *words)
    print(f"killed {moment} s after the wave has begun")
    told: list[str] = []

    def done() -> bool:
        # Refused as long as the updates of the killed run are at work.
        told.append(clusters[FIRST].fleet(*words, statuses=(0, 1)))
        return all(f"{name} is healthy at {NEW}" in told[-1] for name in NETWORKS)

    until(done, "the upgrade of all three", LONGEST)
    assert kubelets(clusters) == {name: {NEW} for name in NETWORKS}
    assert not [said for said in told if f"{FIRST}: upgrading" in said]
    assert not [said for said in told if "failed" in said or "not healthy" in said]
    assert all(all(cluster.nodes().values()) for cluster in clusters.values())
