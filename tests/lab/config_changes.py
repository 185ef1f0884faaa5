"""Changes of a running cluster's configuration, each with a check that it has arrived."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lab.cluster import Cluster, openstack
from lab.image import versions

NEW, OLD = versions.KUBERNETES_RELEASES
STATIC = {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "100m"}}
# Never asked: the nodes have their images.
MIRRORS = {"_default": ["https://mirror.example.org"]}
POLICY = {"rules": [{"level": "None", "users": ["nobody@example.org"]}, {"level": "Metadata"}]}
POOL = {"name": "extra", "flavor": "lab.2c3g", "count": 1}

Keys = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A change of the stack's keys, which another time is taken back."""

    name: str
    make: Callable[[Keys], None] = field(repr=False)
    # Asserts it, by the keys.
    arrived: Callable[[Cluster, Keys], None] = field(repr=False)


def first_keys(keys: Mapping[str, Any]) -> Keys:
    """The keys of a cluster that every change can begin with."""
    return {
        **keys,
        "kubernetesVersion": OLD,
        "auditLog": {},
        "apiServer": {},
        "registryMirrors": {},
        "rotation": {},
        "workerPools": [],
    }


def draw(dice: random.Random) -> Iterator[tuple[Change, Change]]:
    """Draw pairs without end: each change is in one, then in another, in a random order."""
    left = list(CHANGES)
    while True:
        order = dice.sample(left, len(left))
        yield from zip(order[::2], order[1::2], strict=False)
        # It cannot be taken back.
        left = [change for change in CHANGES if change is not UPGRADE]


def flip(keys: Keys, path: str, one: object, other: object) -> None:
    """Set the key to one value, or to the other if it has the one."""
    *parents, last = path.split(".")
    for parent in parents:
        keys = keys.setdefault(parent, {})
    keys[last] = other if keys.get(last) == one else one


def flipped(path: str, one: object, other: object) -> Callable[[Keys], None]:
    """A change between two values of a key."""
    return lambda keys: flip(keys, path, one, other)


def raised(name: str) -> Callable[[Keys], None]:
    """A key or certificate that is replaced."""

    def make(keys: Keys) -> None:
        keys["rotation"][name] = keys["rotation"].get(name, 1) + 1

    return make


def machines(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    """The cluster's servers of this kind, in OpenStack's words."""
    listed: list[dict[str, Any]] = openstack("server", "list", "--name", f"^{cluster.name}-{kind}-")
    return listed


def has_machines(kind: str, count: str, cluster: Cluster, keys: Keys) -> None:
    """Assert that there are as many servers of this kind as the key says."""
    assert len(machines(cluster, kind)) == keys[count]


def has_etcd_members(cluster: Cluster, keys: Keys) -> None:
    """Assert that each control plane is a member of etcd, and no one else."""
    has_machines("control-plane", "controlPlaneCount", cluster, keys)
    members = cluster.etcdctl(f"{cluster.name}-control-plane-0", "member", "list").splitlines()
    assert len(members) == keys["controlPlaneCount"], members


def has_release(cluster: Cluster, keys: Keys) -> None:
    """Assert the version of every kubelet."""
    path = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"
    shown = cluster.kubectl("get", "nodes", "-o", path)
    assert set(shown.split()) == {keys["kubernetesVersion"]}


def has_flavor(cluster: Cluster, keys: Keys) -> None:
    """Assert the flavor of the default pool's servers."""
    flavors = {server["Flavor"] for server in machines(cluster, "worker")}
    assert flavors == {keys["worker"]["flavor"]}


def has_cpu_policy(cluster: Cluster, keys: Keys) -> None:
    """Assert the policy of every kubelet, as it says itself."""
    wanted = keys["kubelet"]["extraConfig"].get("cpuManagerPolicy", "none")
    for name in cluster.addresses():
        shown = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/configz"))
        assert shown["kubeletconfig"]["cpuManagerPolicy"] == wanted, name


def has_mirrors(cluster: Cluster, keys: Keys) -> None:
    """Assert what containerd of every node reads about mirrors."""
    for name in cluster.addresses():
        found = cluster.ssh(name, "sudo cat /etc/containerd/certs.d/_default/hosts.toml || true")
        assert ("mirror.example.org" in found) == bool(keys["registryMirrors"]), name


def has_audit_policy(cluster: Cluster, keys: Keys) -> None:
    """Assert the audit policy on every control plane."""
    for name in cluster.addresses():
        if "-control-plane-" in name:
            found = cluster.ssh(name, "sudo cat /etc/kubernetes/audit-policy.yaml")
            assert ("nobody@example.org" in found) == bool(keys["auditLog"].get("policy")), name


def has_argument(cluster: Cluster, keys: Keys) -> None:
    """Assert the argument of every API server."""
    wanted = keys["apiServer"]["extraArgs"]["event-ttl"]
    listed = json.loads(
        cluster.kubectl(
            *("get", "pods", "-n", "kube-system", "-l", "component=kube-apiserver", "-o", "json")
        )
    )["items"]
    commands = [pod["spec"]["containers"][0]["command"] for pod in listed]
    assert len(commands) == keys["controlPlaneCount"]
    assert all(f"--event-ttl={wanted}" in command for command in commands), commands


def has_label_and_taint(cluster: Cluster, keys: Keys) -> None:
    """Assert the label and the taint of every worker in the default pool."""
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    for node in nodes:
        if "-worker-" in node["metadata"]["name"]:
            labels, taints = node["metadata"]["labels"], node["spec"].get("taints", [])
            assert labels.get("example.org/disk") == keys["worker"]["labels"].get(
                "example.org/disk"
            )
            assert taints == keys["worker"]["taints"]


def has_kube_proxy(cluster: Cluster, keys: Keys) -> None:
    """Assert that kube-proxy runs everywhere with the setting."""
    wanted = keys["kubeProxy"]["extraConfig"]["configSyncPeriod"]
    stored = cluster.kubectl("-n", "kube-system", "get", "configmap", "kube-proxy", "-o", "yaml")
    assert f"configSyncPeriod: {wanted}" in stored
    cluster.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy")


def has_metrics(cluster: Cluster, keys: Keys) -> None:
    """Assert that there is a metrics server if there should be one."""
    found = cluster.kubectl("get", "apiservices", "v1beta1.metrics.k8s.io", "--ignore-not-found")
    assert bool(found) == keys["addons"]["metricsServer"]["enabled"]


def has_pool(cluster: Cluster, keys: Keys) -> None:
    """Assert that the other pool's node is there if it should be."""
    assert (f"{cluster.name}-extra-0" in cluster.nodes()) == bool(keys["workerPools"])


def opens(cluster: Cluster, _: Keys) -> None:
    """Assert that the newest keys open every machine."""
    for name in cluster.addresses():
        assert cluster.ssh(name, "hostname").strip() == name


def has_secret(cluster: Cluster, _: Keys) -> None:
    """Assert that a Secret of before can be read."""
    shown = cluster.kubectl("get", "secret", "kept", "-o", "jsonpath={.data.key}")
    assert shown == "dmFsdWU="


def switch_label_and_taint(keys: Keys) -> None:
    """A label and a taint that lets every pod in."""
    flip(keys, "worker.labels", {"example.org/disk": "fast"}, {})
    taint = {"key": "example.org/only", "value": "batch", "effect": "PreferNoSchedule"}
    flip(keys, "worker.taints", [taint], [])


def switch_cpu_policy(keys: Keys) -> None:
    """A policy of the kubelet that keeps a state on disk."""
    config = keys["kubelet"]["extraConfig"]
    with_policy = {**config, **STATIC}
    without = {key: value for key, value in config.items() if key not in STATIC}
    keys["kubelet"]["extraConfig"] = without if config == with_policy else with_policy


UPGRADE = Change("upgrade", flipped("kubernetesVersion", NEW, NEW), has_release)
CHANGES = (
    UPGRADE,
    Change(
        "number of workers",
        flipped("workerCount", 3, 2),
        partial(has_machines, "worker", "workerCount"),
    ),
    Change("number of control planes", flipped("controlPlaneCount", 3, 1), has_etcd_members),
    Change(
        "number of gateways",
        flipped("gatewayCount", 2, 1),
        partial(has_machines, "gateway", "gatewayCount"),
    ),
    Change("another pool", flipped("workerPools", [POOL], []), has_pool),
    Change("flavor of workers", flipped("worker.flavor", "lab.2c4g", "lab.2c3g"), has_flavor),
    Change("label and taint", switch_label_and_taint, has_label_and_taint),
    Change("policy of the kubelet", switch_cpu_policy, has_cpu_policy),
    Change("mirrors", flipped("registryMirrors", MIRRORS, {}), has_mirrors),
    Change("audit policy", flipped("auditLog", {"policy": POLICY}, {}), has_audit_policy),
    Change(
        "argument of the API server",
        flipped("apiServer", *({"extraArgs": {"event-ttl": time}} for time in ("2h", "3h"))),
        has_argument,
    ),
    Change(
        "setting of kube-proxy",
        flipped("kubeProxy.extraConfig.configSyncPeriod", "10m0s", "20m0s"),
        has_kube_proxy,
    ),
    Change(
        "metrics server",
        flipped("addons.metricsServer", {"enabled": False}, {"enabled": True}),
        has_metrics,
    ),
    Change("SSH key", raised("sshKey"), opens),
    Change("host keys", raised("hostKeys"), opens),
    Change("encryption key", raised("encryptionKey"), has_secret),
)
