"""An update that is killed or fails at any point, and the commands that an operator types next."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import IPv4Address

import pytest

from lab import image, settings
from lab.backend import STACKS
from lab.cluster import Cluster, left_in_project, openstack, run
from lab.errors import LabError
from lab.stack import PROJECT_NAME
from lab.until import until
from tests.lab import kills

# Each update continues from what the one before has left, so together they reach the network, the
# first servers, their host keys, kubeadm init and the add-ons.
KILLS = 6
SHORTEST, LONGEST = 3.0, 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One gateway, one control plane, one worker: nothing is made yet."""
    size = {"gateways": 1, "control_planes": 1, "workers": 1}
    killed = Cluster("killed", settings.cluster(image=image.ensure(), **size))
    try:
        yield killed
    finally:
        killed.destroy()


def names_in_the_project() -> list[str]:
    """Kind and name of everything that the program has made in the project."""
    kinds = ("server", "port", "router", "subnet", "volume", "security group", "server group")
    return [
        f"{kind} {each['Name']}"
        for kind in kinds
        for each in openstack(*kind.split(), "list")
        if each["Name"].startswith("killed")
    ]


@kills.SEEDED
def test_the_next_update_continues_wherever_one_was_killed(cluster: Cluster, seed: int) -> None:
    killed = 0
    for seconds in kills.draw(seed, KILLS, SHORTEST, LONGEST):
        hit = cluster.killed_up(seconds)
        killed += hit
        ended = f"killed after {seconds} s" if hit else "done before"
        print(f"{ended}:\n{cluster.recover()}")
    assert killed > 0, "every update was faster: draw shorter times"
    cluster.up()
    assert cluster.nodes() == {"killed-control-plane-0": True, "killed-worker-0": True}


@kills.SEEDED
def test_an_update_that_is_killed_without_checkpoints_is_continued_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """As for hundreds of new workers at once: the state is written only at the end."""
    seconds = kills.moment(random.Random(seed), 8, 20)
    with monkeypatch.context() as patched:
        patched.setenv("PULUMI_SKIP_CHECKPOINTS", "true")
        assert cluster.killed_up(seconds, workerCount=3), f"the update took less than {seconds} s"
    print(f"killed after {seconds} s:\n{cluster.recover('--without-checkpoints')}")
    cluster.up()
    assert all(cluster.nodes().values())
    assert len(cluster.nodes()) == 1 + 3
    cluster.up(workerCount=1)


def test_nothing_was_made_twice(cluster: Cluster) -> None:
    twice = [name for name, count in Counter(names_in_the_project()).items() if count > 1]
    assert twice == []
    assert len(openstack("floating", "ip", "list")) == 1


def make_port(index: int) -> None:
    """Make the port of another gateway, as a request that ends with an error may."""
    first = openstack("port", "show", "killed-gateway-0")
    address = IPv4Address(first["fixed_ips"][0]["ip_address"]) + index
    groups = [word for group in first["security_group_ids"] for word in ("--security-group", group)]
    openstack(
        *("port", "create", f"killed-gateway-{index}", "--network", first["network_id"]),
        *("--fixed-ip", f"ip-address={address}", *groups),
    )


@contextmanager
def paused_update() -> Iterator[None]:
    """Wait for an update, and let it stand still; it has not asked for anything yet."""
    locks = STACKS / ".pulumi/locks/organization" / PROJECT_NAME / "killed"
    until(lambda: [*locks.glob("*.json")], "the lock of an update", 60)
    [lock] = locks.glob("*.json")
    # It notes its beginning just after that.
    time.sleep(1)
    update = json.loads(lock.read_text())["pid"]
    # It is a number of the lab's own.
    run("kill", "-STOP", str(update))
    try:
        yield
    finally:
        run("kill", "-CONT", str(update))


def test_what_a_request_that_failed_has_made_all_the_same_is_deleted(cluster: Cluster) -> None:
    make_port(1)
    with pytest.raises(LabError):
        cluster.up(gatewayCount=2)
    assert "exists, but is not in the state: port killed-gateway-1" in cluster.recover()
    cluster.up(gatewayCount=2)


def test_a_workspace_of_the_operator_deletes_it_without_a_person(cluster: Cluster) -> None:
    cluster.stack.configure({"gatewayCount": 3})
    update = cluster.stack.command("up", "--yes", "--skip-preview")
    with cluster.configured_in_the_checkout(), ThreadPoolExecutor() as pool:
        failed = pool.submit(cluster.run_command, "workspace", *update, statuses=(1, 255))
        with paused_update():
            make_port(2)
        failed.result()
    assert openstack("port", "list", "--name", "killed-gateway-2") == []
    cluster.up()


def test_another_update_changes_nothing_and_destroy_leaves_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}
    cluster.destroy()
    assert left_in_project() == {}
