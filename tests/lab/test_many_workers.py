"""Many workers with few add-ons: made and rolled five at a time, taken away (`make lab-many`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from bench.cluster import from_nothing
from bench.figures import Figures, seconds, timed
from lab import image, settings
from lab.cluster import Cluster, left_in_project
from lab.image import glance, node, versions
from lab.poll import Poll
from tests.lab.ready_nodes import fewest, ready_nodes

AT_A_TIME, CONTROL_PLANES = 5, 3
# With 15 workers, two processors did no more than answer late.
WORKERS = min(20, AT_A_TIME * (os.cpu_count() or 1))
SECOND_IMAGE = "node-image-many"
# All the machines share this one's processors: an answer may take longer than in a small cluster.
LONGEST_SILENCE = 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two gateways, three control planes, the first five workers: nothing is made yet."""
    sizes = {"control_planes": CONTROL_PLANES, "workers": AT_A_TIME}
    keys = settings.cluster(image=image.ensure(), **sizes)
    off = {"enabled": False}
    many = Cluster("many", {
        **keys,
        "worker": {"flavor": "lab.2c2g", "maxUnavailable": AT_A_TIME},
        "addons": {**keys["addons"], "cinderCsi": off, "metricsServer": off, "nodeDns": off},
        "timeouts": {"ready": "30m"},
    })  # fmt: skip
    try:
        yield many
    finally:
        many.destroy()


def silence(figures: Figures, poll: Poll, during: str) -> None:
    """Add how long the API was silent during a change."""
    figures.add(f"{during}: failed polls of the API", poll.failed, "")
    figures.add(f"{during}: longest silence of the API", poll.longest, at_most=LONGEST_SILENCE)


def test_the_workers_come_up(cluster: Cluster, figures: Figures) -> None:
    up, ready = from_nothing(cluster, CONTROL_PLANES + AT_A_TIME)
    figures.add(f"{AT_A_TIME} workers: pulumi up from nothing", up)
    figures.add(f"{AT_A_TIME} workers: until all nodes are Ready", ready)
    # Cilium's agents compile when they start.
    for count in range(2 * AT_A_TIME, WORKERS + 1, AT_A_TIME):
        more = seconds(partial(cluster.up, workerCount=count))
        figures.add(f"from {count - AT_A_TIME} to {count} workers", more)
        assert len(cluster.nodes()) == CONTROL_PLANES + count
    assert all(cluster.nodes().values())
    changes, taken = timed(cluster.up)
    figures.add("no changes", taken)
    assert changes == {}


def test_one_more_worker_joins(cluster: Cluster, figures: Figures) -> None:
    before = cluster.servers()
    figures.add("one more worker", seconds(lambda: cluster.up(workerCount=WORKERS + 1)))
    assert before.items() <= cluster.servers().items()
    assert len(cluster.nodes()) == CONTROL_PLANES + WORKERS + 1
    figures.add("one worker leaves", seconds(lambda: cluster.up(workerCount=WORKERS)))
    assert cluster.servers() == before


def test_all_machines_are_rolled_with_five_workers_at_a_time(
    cluster: Cluster, figures: Figures
) -> None:
    glance.register(SECOND_IMAGE, node.build([versions.KUBERNETES]), {})
    before = cluster.servers()
    with Poll(cluster.endpoint) as poll, ready_nodes(cluster) as seen:
        rolled = seconds(lambda: cluster.up(image=SECOND_IMAGE))
    after = cluster.servers()
    figures.add(f"a new image on all {len(before)} machines", rolled)
    silence(figures, poll, "roll")
    figures.add("roll: fewest Ready workers", fewest(seen, "worker"), "")
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert all(cluster.nodes().values())
    assert fewest(seen, "worker") >= WORKERS - AT_A_TIME
    # Fewer than all but one: they did not go one after the other.
    assert fewest(seen, "worker") < WORKERS - 1
    assert fewest(seen, "control-plane") >= CONTROL_PLANES - 1


def test_all_workers_but_one_leave(cluster: Cluster, figures: Figures) -> None:
    with Poll(cluster.endpoint) as poll, ready_nodes(cluster) as seen:
        figures.add(f"{WORKERS - 1} workers leave", seconds(lambda: cluster.up(workerCount=1)))
    silence(figures, poll, "scaling in")
    assert fewest(seen, "control-plane") == CONTROL_PLANES
    assert {name for name in cluster.nodes() if "worker" in name} == {"many-worker-0"}
    assert cluster.up() == {}


def test_a_destroy_leaves_nothing(cluster: Cluster, figures: Figures) -> None:
    figures.add("pulumi destroy", seconds(cluster.destroy))
    assert left_in_project() == {}
