"""Updates with two changes each, in random pairs: that each goes well alone proves little."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from lab import image, settings
from lab.cluster import Cluster
from tests.lab import config_changes, kills
from tests.lab.config_changes import CHANGES, NEW, OLD, Keys

# By default each change is in one of the pairs.
ROUNDS = int(os.environ.get("ROUNDS") or len(CHANGES) // 2)


@pytest.fixture(scope="module")
def keys() -> Keys:
    """One gateway, one control plane and two workers of the older release; the image has both."""
    size = {"gateways": 1, "control_planes": 1, "workers": 2}
    return config_changes.first_keys(settings.cluster(image=image.ensure([OLD, NEW]), **size))


@pytest.fixture(scope="module")
def cluster(keys: Keys) -> Iterator[Cluster]:
    """The cluster; it is destroyed at the end, also after a failure."""
    made = Cluster("changes", keys)
    with made.running():
        yield made


@kills.SEEDED
def test_two_changes_arrive_with_one_update(cluster: Cluster, keys: Keys, seed: int) -> None:
    cluster.kubectl("create", "secret", "generic", "kept", "--from-literal=key=value")
    pairs = config_changes.draw(random.Random(seed))
    for number in range(ROUNDS):
        pair = next(pairs)
        print(f"{number + 1} of {ROUNDS}: {' and '.join(each.name for each in pair)}", flush=True)
        for change in pair:
            change.make(keys)
        cluster.up(**keys)
        for change in pair:
            change.arrived(cluster, keys)
        assert cluster.nodes() == dict.fromkeys(cluster.addresses(), True)
        cluster.wait_for_pods(180)
        assert cluster.up() == {}
