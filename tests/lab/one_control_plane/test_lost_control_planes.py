"""The loss of all control planes of a cluster without a bucket and without volumes for etcd.

Nothing is left of the cluster's data then, but its workers and their pods live on.
"""

from __future__ import annotations

import pytest

from lab import image, settings
from lab.cluster import UP, Cluster, run

CONTROL_PLANE, WORKER = "one-control-plane-0", "one-worker-0"


@pytest.fixture(scope="module", autouse=True)
def pod(cluster: Cluster) -> None:
    """A pod on the worker."""
    cluster.kubectl("run", "survivor", "--image=registry.k8s.io/pause:3.10.2")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/survivor", "--timeout=120s")


def survivor(cluster: Cluster) -> str:
    """Id of the running container of the pod."""
    return cluster.ssh(WORKER, "sudo crictl ps --quiet --state Running --name '^survivor$'").strip()


def control_plane(**more: object) -> dict[str, object]:
    """The key `controlPlane`."""
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    return {**keys["controlPlane"], **more}


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.nodes() == {CONTROL_PLANE: True, WORKER: True}
    assert cluster.up() == {}


@pytest.mark.parametrize("flags", [["--refresh"], []])
def test_without_its_control_planes_the_cluster_is_not_replaced_by_an_empty_one(
    cluster: Cluster, flags: list[str]
) -> None:
    before = survivor(cluster)
    assert before
    if flags:
        run("openstack", "server", "delete", "--wait", CONTROL_PLANE)
    result = cluster.stack.pulumi(*UP, *flags, capture=True, check=False)
    told = result.stdout + result.stderr
    assert result.returncode != 0
    assert "not beginning an empty one in its place" in told
    assert "pulumi config set --path controlPlane.beginEmpty true" in told
    assert survivor(cluster) == before


def test_on_purpose_it_begins_empty(cluster: Cluster) -> None:
    cluster.up(controlPlane=control_plane(beginEmpty=True))
    # The administrator's rights are an add-on: the next update makes them.
    kubectl = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf"
    assert CONTROL_PLANE in cluster.ssh(CONTROL_PLANE, f"{kubectl} get nodes -o name")
    assert "survivor" not in cluster.ssh(CONTROL_PLANE, f"{kubectl} get pods -o name")


def test_the_add_ons_and_the_workers_come_back(cluster: Cluster) -> None:
    cluster.up(
        "--refresh", "--replace", f"**:Command::{WORKER}-membership", controlPlane=control_plane()
    )
    assert cluster.nodes() == {CONTROL_PLANE: True, WORKER: True}
    cluster.wait_for_pods(180)
    assert cluster.up() == {}
