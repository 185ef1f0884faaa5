"""A run that is killed at any point, and what the operator types next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from lab import image, settings
from tests.lab.cluster import Cluster, left_in_project, openstack

# Seconds from the start of each run to its end by force: the network, the first servers, their
# first contact, kubeadm init, add-ons; the later ones go on from what the earlier ones left.
KILLED_AFTER = [4, 6, 9, 14, 25, 40]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One gateway, one control plane, one worker: not made yet."""
    size = {"gateways": 1, "control_planes": 1, "workers": 1}
    killed = Cluster("killed", settings.cluster(image=image.ensure(), **size))
    try:
        yield killed
    finally:
        killed.destroy()


def names_in_the_project() -> list[str]:
    """Kind and name of everything that the program names."""
    kinds = ("server", "port", "router", "subnet", "volume", "security group", "server group")
    return [
        f"{kind} {each['Name']}"
        for kind in kinds
        for each in openstack(*kind.split(), "list")
        if each["Name"].startswith("killed")
    ]


def test_the_next_run_goes_on_wherever_one_was_killed(cluster: Cluster) -> None:
    for seconds in KILLED_AFTER:
        cluster.killed_up(seconds)
        print(f"killed after {seconds} s:\n{cluster.recover()}")
    cluster.up()
    assert cluster.nodes() == {"killed-control-plane-0": True, "killed-worker-0": True}


def test_nothing_was_made_twice(cluster: Cluster) -> None:
    twice = [name for name, count in Counter(names_in_the_project()).items() if count > 1]
    assert twice == []
    assert len(openstack("floating", "ip", "list")) == 1


def test_then_nothing_is_left_to_do_and_nothing_is_left_behind(cluster: Cluster) -> None:
    assert cluster.up() == {}
    cluster.destroy()
    assert left_in_project() == {}
