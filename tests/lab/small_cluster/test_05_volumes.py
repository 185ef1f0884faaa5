"""A volume of Cinder, and a power cut: the volume, nodes and pods of earlier tests come back."""

from __future__ import annotations

import json

from lab.cluster import Cluster, openstack, run
from lab.until import until
from tests.lab.small_cluster.pods import CLAIM, execute, metadata


def boots(cluster: Cluster) -> dict[str, str]:
    """Node name -> id of its current boot; empty while the API is not available."""
    listed = cluster.kubectl("get", "nodes", "-o", "json", check=False)
    items = json.loads(listed)["items"] if listed else []
    return {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in items}


def test_a_pod_keeps_its_files_on_a_volume_of_cinder(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=CLAIM)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=180s")
    assert execute(cluster, "writer", "cat", "/data/file") == "kept"
    assert len(openstack("volume", "list")) == 1
    # The volume stays: destroy must find and delete it.


def test_everything_comes_back_after_a_power_cut(cluster: Cluster) -> None:
    before = boots(cluster)
    servers = [server["ID"] for server in openstack("server", "list")]
    assert len(servers) == 3
    for each in servers:
        run("openstack", "server", "reboot", "--hard", each)

    def booted() -> bool:
        now = boots(cluster)
        return now.keys() == before.keys() and not now.items() & before.items()

    until(booted, "each node's new boot", 180)
    until(lambda: all(cluster.nodes().values()), "ready nodes", 120)
    until(lambda: "small-worker-0" in metadata(cluster, "in-nodes"), "pods that run again", 180)
    until(lambda: execute(cluster, "in-pods", "echo", "here") == "here", "pod network", 180)
    assert metadata(cluster, "in-pods") == ""
    until(lambda: execute(cluster, "writer", "cat", "/data/file") == "kept", "the volume", 180)
    cluster.kubectl("delete", "pod", "-l", "app=network", "--wait=false")
