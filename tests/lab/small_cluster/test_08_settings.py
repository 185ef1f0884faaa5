"""Settings of kubelets and arguments of control planes, changed in a running cluster."""

from __future__ import annotations

import pytest

from lab import settings
from lab.cluster import UP, Cluster
from lab.errors import LabError
from lab.until import until
from tests.lab.small_cluster.pods import start_sleeper


def mebibytes(cluster: Cluster, node: str, kind: str) -> int:
    """The memory of a node, its `capacity` or what is `allocatable`."""
    path = f"jsonpath={{.status.{kind}.memory}}"
    return int(cluster.kubectl("get", "node", node, "-o", path).removesuffix("Ki")) // 1024


def test_settings_of_kubelets_and_arguments_reach_a_running_cluster_without_a_drain(
    cluster: Cluster,
) -> None:
    worker = "small-worker-0"
    kept = mebibytes(cluster, worker, "capacity") - mebibytes(cluster, worker, "allocatable")
    assert 612 <= kept <= 613
    start_sleeper(cluster, "stays", "stays", worker, "false")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/stays", "--timeout=120s")
    path = "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}"
    before = cluster.kubectl("get", "pod", "stays", "-o", path)

    # No kubelet starts with the state that another policy has left.
    extra = {"systemReserved": {"memory": "300Mi"}, "cpuManagerPolicy": "static"}
    cluster.up(
        kubelet={"extraConfig": {**settings.KUBELET, **extra}},
        apiServer={"extraArgs": {"event-ttl": "4h"}},
        timeouts={"drain": "20m"},
    )
    now = mebibytes(cluster, worker, "capacity") - mebibytes(cluster, worker, "allocatable")
    assert now == kept + 44
    for node in cluster.nodes():
        state = cluster.ssh(node, "sudo cat /var/lib/kubelet/cpu_manager_state")
        assert '"policyName":"static"' in state, node
    assert cluster.kubectl("get", "pod", "stays", "-o", path) == before
    manifest = "sudo cat /etc/kubernetes/manifests/kube-apiserver.yaml"
    assert "--event-ttl=4h" in cluster.ssh("small-control-plane-0", manifest)
    assert cluster.up() == {}
    cluster.kubectl("delete", "pod", "stays", "--now")
    cluster.up(kubelet={"extraConfig": settings.KUBELET}, apiServer=None, timeouts=None)


def test_only_root_reads_the_kubelets_files(cluster: Cluster) -> None:
    # kubeadm lets everyone read the configuration, which the test above has changed.
    units = "$(systemctl show -P FragmentPath -P DropInPaths kubelet)"
    files = f"{units} /etc/kubernetes/kubelet.conf /var/lib/kubelet/config.yaml"
    for node in cluster.nodes():
        modes = cluster.ssh(node, f"sudo stat -c %a {files}").split()
        assert modes == ["600"] * 4, node


def test_a_control_plane_survives_an_argument_that_it_does_not_know(cluster: Cluster) -> None:
    cluster.stack.configure({"apiServer": {"extraArgs": {"no-such-argument": "x"}}})
    try:
        with pytest.raises(LabError, match="this control plane continues with its last manifests"):
            cluster.stack.pulumi(*UP, capture=True)
        until(lambda: all(cluster.nodes().values()), "an API with its last arguments", 180)
    finally:
        cluster.up(apiServer=None)
    assert all(cluster.nodes().values())
    # Control planes that join start with what is stored.
    stored = cluster.kubectl(
        "get", "configmap", "kubeadm-config", "-n", "kube-system", "-o", "yaml"
    )
    assert "no-such-argument" not in stored
    # Those that have ended without an API wait before they start again.
    cluster.wait_for_pods(300)
