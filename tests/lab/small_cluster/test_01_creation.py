"""A cluster just made: its nodes, a second update, and what stays on the operator's machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.cluster import Cluster


def test_every_node_is_ready(cluster: Cluster) -> None:
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}


def test_no_copy_of_the_kubeconfig_stays_in_the_folder_for_temporary_files(
    cluster: Cluster,
) -> None:
    # The program's user: the provider of Kubernetes writes a file for each of its starts.
    user = f"name: {cluster.name}-openstack-kubernetes\n"
    texts = (file.read_text() for file in Path(tempfile.gettempdir()).glob("kubeconfig*"))
    assert not any(user in text and cluster.endpoint in text for text in texts)
