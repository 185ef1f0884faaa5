"""A cluster of the last release is updated by this program: nothing is replaced or drained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import versions
from lab import image
from lab.cluster import Cluster
from lab.poll import Poll
from lab.until import until
from tests.lab.released import ReleasedCluster, ReleasedProgram

NAME = "update"
SIZE = {"gateways": 2, "control_planes": 3, "workers": 2}

# No controller starts it again after a drain.
COUNTER = """
apiVersion: v1
kind: Pod
metadata: {name: counter}
spec:
  nodeName: update-worker-0
  restartPolicy: Never
  containers:
  - name: counter
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "i=0; while true; do i=$((i+1)); echo $i; sleep 1; done"]
"""

# Losing one of these loses data, a machine, or the trust in it.
KEPT_KINDS = (
    "openstack:compute/instance:Instance",
    "openstack:blockstorage/volume:Volume",
    "openstack:networking/port:Port",
    "openstack:networking/network:Network",
    "openstack:networking/subnet:Subnet",
    "openstack:networking/router:Router",
    "openstack:networking/floatingIp:FloatingIp",
    "openstack:identity/applicationCredential:ApplicationCredential",
    "tls:index/privateKey:PrivateKey",
    "random:index/randomBytes:RandomBytes",
)
# Created when a node joins, deleted by a drain.
MEMBERSHIP = "-membership"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of the last release with a pod that counts, as it is before the update."""
    program = ReleasedProgram(tmp_path_factory.mktemp("released"))
    keys = program.settings(image=image.ensure(), **SIZE)
    released = ReleasedCluster(NAME, keys, program)
    try:
        released.up()
        released.kubectl("apply", "-f", "-", stdin=COUNTER)
        until(lambda: count(released) > 0, "the pod that counts", 60)
        # The same stack, state and kubeconfig.
        yield Cluster(NAME, {**keys, "deletionProtection": False})
    finally:
        Cluster(NAME, {}).destroy()


def count(cluster: Cluster) -> int:
    """The last number that the pod wrote."""
    last = cluster.kubectl("logs", "counter", "--tail=1", check=False).strip()
    return int(last) if last.isdigit() else 0


def resources(cluster: Cluster) -> list[dict[str, Any]]:
    """The resources in the stack's state that exist outside of it."""
    return [each for each in cluster.stack.resources() if each.get("custom") and "id" in each]


def kept(cluster: Cluster) -> dict[tuple[str, str], str]:
    """(type, id) to name of what must survive an update. A name may change, with an alias."""
    return {
        (each["type"], each["id"]): each["urn"].rpartition("::")[2]
        for each in resources(cluster)
        if (each["type"] in KEPT_KINDS or each["urn"].endswith(MEMBERSHIP))
        # Of no use to a server that runs; new ones boot with keys that are no resources.
        and not each["urn"].endswith("-one-time-host-key")
    }


def node_uids(cluster: Cluster) -> dict[str, str]:
    """Name to uid of the Nodes: one that left and came back has another uid."""
    listed = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    return {node["metadata"]["name"]: node["metadata"]["uid"] for node in listed}


def cordons(cluster: Cluster) -> list[str]:
    """The nodes that were cordoned, as far back as events are kept."""
    listed = json.loads(
        cluster.kubectl(
            "get", "events", "-A", "--field-selector=reason=NodeNotSchedulable", "-o", "json"
        )
    )["items"]
    return [event["involvedObject"]["name"] for event in listed]


def test_everything_is_kept_and_no_pod_is_interrupted(cluster: Cluster) -> None:
    before = kept(cluster)
    assert {kind for kind, _ in before} >= {KEPT_KINDS[0], "tls:index/privateKey:PrivateKey"}
    assert sum(name.endswith(MEMBERSHIP) for name in before.values()) == 5
    machines, nodes, counted = cluster.servers(), node_uids(cluster), count(cluster)
    assert len(machines) == 7

    with Poll(cluster.endpoint) as poll:
        changes = cluster.up()
    print(f"the update: {changes}; the API was silent for {poll.longest:.1f} s at most")

    assert cluster.servers() == machines
    after = kept(cluster)
    lost = {name for identity, name in before.items() if identity not in after}
    assert not lost, f"replaced or deleted: {sorted(lost)}"
    assert node_uids(cluster) == nodes
    assert all(cluster.nodes().values())
    assert cordons(cluster) == []
    until(lambda: count(cluster) > counted, "the pod to continue counting", 30)
    lines = cluster.kubectl("logs", "counter").split()
    assert [int(line) for line in lines] == list(range(1, len(lines) + 1))


def test_the_stack_and_its_nodes_show_the_new_version(cluster: Cluster) -> None:
    outputs = cluster.stack.outputs()
    assert outputs["version"] == versions.PROGRAM
    for node in outputs["nodes"]:
        shown = cluster.ssh(node["name"], "grep PROGRAM_VERSION /etc/openstack-kubernetes/node.env")
        assert versions.PROGRAM in shown, node["name"]


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}
