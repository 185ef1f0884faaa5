"""One key upgrades Kubernetes by a minor: no machine is replaced, workers are drained in turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab import image, settings
from lab.cluster import Cluster, run
from lab.image import versions
from lab.until import until
from tests.lab import kills

NEW, OLD = versions.KUBERNETES_RELEASES
# For pgrep, which must not find the shell that starts it.
SCRIPT = "'[c]ontrol-plane.sh configure'"
NODES = ["upgrade-control-plane-0", "upgrade-worker-0", "upgrade-worker-1"]

# Two pods, one of which must always be available: a drain has to wait for the other.
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: docker.io/lab/busybox:1
        imagePullPolicy: Never
        command: [httpd, -f, -p, "8080", -h, /etc]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One gateway, one control plane, two workers of the older release; the image has both."""
    size = {"gateways": 1, "control_planes": 1, "workers": 2}
    old = Cluster("upgrade", settings.cluster(image=image.ensure([OLD, NEW]), **size))
    try:
        old.up(kubernetesVersion=OLD)
        yield old
    finally:
        old.destroy()


def versions_of(cluster: Cluster) -> dict[str, str]:
    """Node name -> version of its kubelet."""
    listed = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    return {n["metadata"]["name"]: n["status"]["nodeInfo"]["kubeletVersion"] for n in listed}


def events(cluster: Cluster, reason: str) -> list[tuple[str, str]]:
    """Times and object names of the events with this reason, in order."""
    listed = json.loads(
        cluster.kubectl("get", "events", "-A", f"--field-selector=reason={reason}", "-o", "json")
    )["items"]
    return sorted((e["metadata"]["creationTimestamp"], e["involvedObject"]["name"]) for e in listed)


def test_the_cluster_starts_with_the_older_release(cluster: Cluster) -> None:
    assert versions_of(cluster) == dict.fromkeys(NODES, OLD)


def test_a_release_that_skips_or_goes_back_is_refused(cluster: Cluster) -> None:
    for wrong in ("v1.37.0", "v1.35.3"):
        cluster.stack.configure({"kubernetesVersion": wrong})
        refused = cluster.stack.pulumi("preview", check=False, capture=True)
        assert refused.returncode != 0
        assert "kubernetesVersion" in refused.stdout + refused.stderr
    cluster.stack.configure({"kubernetesVersion": OLD})


def test_a_release_that_does_not_exist_changes_nothing_and_can_be_corrected(
    cluster: Cluster,
) -> None:
    typo = f"{OLD}9"
    cluster.stack.configure({"kubernetesVersion": typo})
    failed = cluster.stack.pulumi("up", "--yes", "--skip-preview", check=False, capture=True)
    assert failed.returncode != 0
    said = failed.stdout + failed.stderr
    assert typo in said
    assert "upgrade-control-plane-0" in said
    assert versions_of(cluster) == dict.fromkeys(NODES, OLD)
    cluster.up(kubernetesVersion=OLD)
    assert versions_of(cluster) == dict.fromkeys(NODES, OLD)
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    assert not [n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")]


def test_the_fleet_previews_before_it_changes_anything(cluster: Cluster) -> None:
    with cluster.configured_in_the_checkout():
        words = ("upgrade", "--to", "v1.37.0", "--yes", "upgrade")
        assert cluster.fleet(*words, statuses=(1,)) == ""
    assert OLD in cluster.stack.config_file.read_text()
    assert versions_of(cluster) == dict.fromkeys(NODES, OLD)


def interrupted(cluster: Cluster, seconds: float, interrupt: Callable[[], object]) -> None:
    """Upgrade, and interrupt it when the control plane has been at it for so many seconds."""
    cluster.stack.configure({"kubernetesVersion": NEW})
    with ThreadPoolExecutor() as pool:
        words = ("up", "--yes", "--skip-preview")
        update = pool.submit(cluster.stack.pulumi, *words, check=False, capture=True)
        until(lambda: cluster.ssh(NODES[0], f"pgrep -f {SCRIPT}"), "the upgrade", 60)
        time.sleep(seconds)
        interrupt()
        ended = update.result()
    print(ended.stdout[-2000:])
    assert ended.returncode != 0


@kills.SEEDED
def test_an_interrupted_upgrade_leaves_a_control_plane_that_works(
    cluster: Cluster, seed: int
) -> None:
    """First its script is killed, which may leave the kubelet stopped, then the power fails."""
    killed, cut = kills.draw(seed, 2, 2, 30)
    kill = f"sudo kill -9 $(pgrep -f {SCRIPT})"
    interrupted(cluster, killed, lambda: cluster.ssh(NODES[0], kill))
    interrupted(cluster, cut, lambda: run("openstack", "server", "reboot", "--hard", NODES[0]))
    until(lambda: cluster.kubectl("get", "--raw", "/readyz") == "ok", "the API", 300)


def test_the_fleet_brings_every_node_to_the_newer_release(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=WEB)
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    before = cluster.servers()
    with cluster.configured_in_the_checkout():
        # It sets the key and runs `pulumi up`.
        said = cluster.fleet("upgrade", "--to", NEW, "--yes", "upgrade")
    assert said.endswith(f"upgrade: healthy at {NEW}\n")
    assert NEW in cluster.stack.config_file.read_text()
    assert versions_of(cluster) == dict.fromkeys(NODES, NEW)
    assert all(cluster.nodes().values())
    assert cluster.servers() == before


def test_each_worker_was_drained_and_is_in_use_again(cluster: Cluster) -> None:
    # A kubelet repeats the event when it restarts.
    drained = dict.fromkeys(name for _, name in events(cluster, "NodeNotSchedulable"))
    assert list(drained) == ["upgrade-worker-0", "upgrade-worker-1"]
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    assert not [n["metadata"]["name"] for n in nodes if n["spec"].get("unschedulable")]
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}
