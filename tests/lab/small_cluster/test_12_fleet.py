"""The cluster as one of many: the fleet's commands, Argo CD, and another one that overlaps."""

from __future__ import annotations

import base64
import functools
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from lab import image, settings
from lab.backend import STACKS
from lab.cluster import Cluster, openstack, run
from lab.errors import LabError
from lab.stack import PROJECT_NAME
from lab.until import until
from tests.lab.kubeconfigs import may_do_everything


def in_the_list(cluster: Cluster, *options: str) -> dict[str, Any]:
    """The cluster in the fleet's list."""
    # Status 1: other stacks of the lab have no cluster now.
    listed = json.loads(cluster.fleet("list", *options, "--output", "json", statuses=(0, 1)))
    [found] = [each for each in listed if each["name"] == cluster.name]
    return dict(found)


def test_the_fleet_lists_the_cluster_and_opens_its_machines(cluster: Cluster) -> None:
    small = in_the_list(cluster)
    assert small["problems"] == []
    assert (small["nodes"], small["ready"]) == (2, 2)
    assert small["kubernetesVersion"] == cluster.stack.outputs()["kubernetesVersion"]
    assert small["lastUpdateResult"] == "succeeded"
    made = cluster.stack.folder / "fleet"
    made.write_text(cluster.fleet("kubeconfig", "small"))
    assert may_do_everything(made)
    for machine in ("small-gateway-0", "small-control-plane-0", "small-worker-0"):
        assert cluster.fleet("ssh", "small", machine, "hostname").strip() == machine


def test_ten_clusters_are_listed_in_half_a_minute(cluster: Cluster) -> None:
    """Ten stacks, each of which is this cluster."""
    states = STACKS / ".pulumi/stacks" / PROJECT_NAME
    state = (states / "small.json").read_text()
    copies = [states / f"small-{number}.json" for number in range(2, 11)]
    try:
        for copy in copies:
            copy.write_text(state.replace("urn:pulumi:small::", f"urn:pulumi:{copy.stem}::"))
        began = time.monotonic()
        listed = json.loads(cluster.fleet("list", "--output", "json", statuses=(0, 1)))
        taken = time.monotonic() - began
    finally:
        for copy in copies:
            copy.unlink(missing_ok=True)
    ready = [each["ready"] for each in listed if each["name"].startswith("small")]
    assert ready == [2] * 10
    print(f"{taken:.1f} s")
    assert taken < 30


def test_the_fleet_shows_the_newest_backup(cluster: Cluster) -> None:
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    cluster.ssh("small-control-plane-0", "sudo systemctl start openstack-kubernetes-backup")
    small = in_the_list(cluster)
    assert before <= datetime.fromisoformat(small["newestBackup"]) <= datetime.now(UTC)
    assert small["newestBackupPlace"] == "disk"


def as_argo_cd(cluster: Cluster, *arguments: str) -> str:
    """Run kubectl with the token of Argo CD's cluster Secret; empty when it is refused."""
    read = cluster.kubectl("-n", "argocd", "get", "secret", "fleet-small", "-o", "json")
    config = json.loads(base64.b64decode(json.loads(read)["data"]["config"]))
    return cluster.kubectl_as(config["bearerToken"], *arguments)


def test_argo_cd_gets_a_token_that_deploys_and_ends(cluster: Cluster) -> None:
    keep = ("argocd", "small", "--admin", "small")
    cluster.kubectl("create", "namespace", "argocd")
    said = cluster.fleet(*keep, "--hours", "1")
    assert said.startswith("small: a new token expires ")
    can = functools.partial(as_argo_cd, cluster, "auth", "can-i")
    assert can("create", "deployments", "-n", "kube-system") == "yes\n"
    assert can("create", "clusterroles") == can("list", "nodes") == "no\n"
    version = ("-n", "argocd", "get", "secret", "fleet-small", "-o", "jsonpath={.metadata}")
    before = cluster.kubectl(*version)
    # The same token: nothing is written.
    assert cluster.fleet(*keep, "--hours", "1") == said.replace("a new", "its")
    assert cluster.kubectl(*version) == before

    cluster.fleet(*keep, "--cluster-role", "edit", "--only-in", "default")
    assert can("create", "deployments", "-n", "kube-system") == "no\n"
    assert can("create", "deployments", "-n", "default") == "yes\n"
    assert can("create", "rolebindings", "-n", "default") == "no\n"

    # Its account is made again: a token of the last one is refused, also before it ends.
    cluster.kubectl("delete", "namespace", "openstack-kubernetes-fleet")
    until(lambda: can("list", "pods") == "", "the end of the token", 60)
    assert cluster.fleet(*keep).startswith("small: a new token expires ")
    assert can("create", "deployments", "-n", "kube-system") == "yes\n"


def test_argo_cds_secret_of_a_cluster_that_is_gone_is_removed_on_demand(cluster: Cluster) -> None:
    words = ("-n", "argocd", "get", "secret", "fleet-gone", "-o", "name")
    gone = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "fleet-gone",
            "namespace": "argocd",
            "labels": {"openstack-kubernetes-fleet": "argocd"},
            "annotations": {"openstack-kubernetes-stack": "gone"},
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(gone))
    keep = ("argocd", "small", "--admin", "small")
    assert "gone: its stack is gone; `--remove-gone` removes" in cluster.fleet(*keep)
    assert cluster.kubectl(*words)
    assert "the Secret fleet-gone is removed" in cluster.fleet(*keep, "--remove-gone")
    assert cluster.kubectl(*words, check=False) == ""
    cluster.kubectl("delete", "namespace", "argocd", "openstack-kubernetes-fleet")


def test_the_fleet_shows_drift_until_an_update_repairs_it(cluster: Cluster) -> None:
    cluster.up("--refresh")
    with cluster.configured_in_the_checkout():
        assert in_the_list(cluster, "--drift")["drift"] is False
        # Ingress is off: no one needs the port.
        rules = openstack("security", "group", "rule", "list", "small-gateway", "--ingress")
        rule, *_ = (each["ID"] for each in rules if each["Port Range"] == "443:443")
        run("openstack", "security", "group", "rule", "delete", rule)
        assert in_the_list(cluster, "--drift")["drift"] is True
    assert cluster.up("--refresh")["create"] == 1


def test_the_fleet_leaves_a_cluster_alone_that_has_the_version(cluster: Cluster) -> None:
    version = cluster.stack.outputs()["kubernetesVersion"]
    said = cluster.fleet("upgrade", "--to", version, "small")
    assert said == f"left alone: small is healthy at {version}\n"


def test_a_second_cluster_with_the_same_addresses_is_refused(cluster: Cluster) -> None:
    size = {"gateways": 1, "control_planes": 1, "workers": 1}
    other = Cluster("other", settings.cluster(image=image.ensure(), **size))
    with pytest.raises(LabError, match=r"hostCidr = (\S+): overlaps with \1 of the cluster small "):
        other.stack.pulumi("preview", capture=True)
    other.stack.configure({"hostCidr": "10.8.4.0/22"})
    other.stack.pulumi("preview", capture=True)
    other.stack.configure({"hostCidr": None})
