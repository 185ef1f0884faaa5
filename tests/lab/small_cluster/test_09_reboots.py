"""Reboots by kured, which wait for control planes."""

from __future__ import annotations

from addons import kured
from config.models.addons import Kured
from lab.cluster import Cluster
from lab.until import until


def test_no_node_reboots_while_a_control_plane_is_not_ready(cluster: Cluster) -> None:
    control_plane, worker = "small-control-plane-0", "small-worker-0"
    addresses = cluster.addresses()
    values = kured.values(
        Kured(enabled=True), control_planes=[addresses[control_plane]], monitored=False
    )
    # As kured runs it, in the namespaces of the host.
    command = f"sudo {values['configuration']['rebootSentinelCommand']} && echo yes || echo no"

    def reboots() -> bool:
        return cluster.ssh(worker, command).strip() == "yes"

    assert not reboots()
    cluster.ssh(worker, "sudo touch /run/reboot-required")
    assert reboots()
    manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    cluster.ssh(control_plane, f"sudo mv {manifest} /root/")
    try:
        until(lambda: not reboots(), "a reboot that waits", 120)
    finally:
        cluster.ssh(control_plane, f"sudo mv /root/kube-apiserver.yaml {manifest}")
        cluster.ssh(worker, "sudo rm /run/reboot-required")
    until(lambda: "Ready" in cluster.kubectl("get", "nodes", check=False), "the API", 180)
    until(lambda: all(cluster.nodes().values()), "ready nodes", 120)
