"""A cluster with the options that the others leave out: an existing network, floating IP, machine
and SSH key, volumes for etcd and for workers, a pool with labels and taints."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import image, settings
from lab.cloud.layout import EXTERNAL_NETWORK
from lab.cluster import Cluster, left_in_project, openstack, run
from lab.ssh_host import make_key
from tests.lab.login_keys import opened_by

NAME = "options"
SITE = "site"
CIDR = "10.30.0.0/24"
BARE_ADDRESS = "10.30.0.200"
TAINT = {"key": "example.org/only", "value": "batch", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Site:
    """Resources that exist before the cluster: network, floating IP, SSH key and a machine."""

    floating_ip: str
    private_key: str
    host_key: str
    image: str


def keypair(folder: Path, name: str) -> tuple[str, str]:
    """Make a new SSH key; returns its private and its public half."""
    file = make_key(folder, name)
    return file.read_text(), file.with_suffix(".pub").read_text().strip()


def make_machine(folder: Path, node_image: str, public_key: str) -> str:
    """Create a server that the program does not manage; returns its host key."""
    host_private, host_public = keypair(folder, "host")
    user_data = folder / "user-data"
    user_data.write_text(
        "#cloud-config\n"
        + yaml.safe_dump(
            {
                "ssh_authorized_keys": [public_key],
                "ssh_deletekeys": True,
                "ssh_keys": {"ed25519_private": host_private, "ed25519_public": host_public},
            }
        )
    )
    run("openstack", "security", "group", "create", SITE)
    rule = ("openstack", "security", "group", "rule", "create", SITE, "--remote-ip", CIDR)
    for protocol in ("tcp", "udp", "icmp"):
        run(*rule, "--protocol", protocol)
    fixed = f"subnet={SITE},ip-address={BARE_ADDRESS}"
    run(
        *("openstack", "port", "create", "bare-0", "--network", SITE),
        *("--fixed-ip", fixed, "--security-group", SITE),
    )
    run(
        *("openstack", "server", "create", "bare-0", "--port", "bare-0", "--image", node_image),
        *("--flavor", "lab.2c3g", "--user-data", str(user_data), "--config-drive", "true"),
    )
    return host_public


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site; it is deleted at the end."""
    folder = tmp_path_factory.mktemp("site")
    node_image = image.ensure()
    private_key, public_key = keypair(folder, "login")
    run("openstack", "network", "create", SITE)
    run(
        *("openstack", "subnet", "create", SITE, "--network", SITE, "--subnet-range", CIDR),
        # Without the machine's address, which Neutron might assign to another port before.
        *("--allocation-pool", "start=10.30.0.32,end=10.30.0.199"),
    )
    run("openstack", "router", "create", SITE, "--external-gateway", EXTERNAL_NETWORK)
    run("openstack", "router", "add", "subnet", SITE, SITE)
    address = openstack("floating", "ip", "create", EXTERNAL_NETWORK)["floating_ip_address"]
    host_key = make_machine(folder, node_image, public_key)
    yield Site(address, private_key, host_key, node_image)
    run("openstack", "server", "delete", "--wait", "bare-0")
    run("openstack", "port", "delete", "bare-0")
    run("openstack", "security", "group", "delete", SITE)
    run("openstack", "floating", "ip", "delete", address)
    run("openstack", "router", "remove", "subnet", SITE, SITE)
    run("openstack", "router", "delete", SITE)
    run("openstack", "network", "delete", SITE)


def pools(site: Site, **changed: Any) -> list[dict[str, Any]]:
    """One pool of servers, perhaps with other keys, and one with the existing machine."""
    tainted = {
        "name": "tainted",
        "flavor": "lab.2c3g",
        "count": 1,
        "labels": {"example.org/disk": "fast", "example.org/rack": "a"},
        "taints": [TAINT],
    }
    machine = {"name": "bare-0", "address": BARE_ADDRESS, "hostKey": site.host_key}
    return [{**tainted, **changed}, {"name": "bare", "machines": [machine]}]


@pytest.fixture(scope="module")
def cluster(site: Site) -> Iterator[Cluster]:
    """The cluster; it is destroyed at the end, also after a failure."""
    keys: dict[str, Any] = settings.cluster(
        image=site.image, gateways=1, control_planes=1, workers=1
    )
    keys["controlPlane"]["etcdVolume"] = {"size": 2}
    keys["etcd"] = {"quotaBackendBytes": 2**30}
    keys["worker"]["volume"] = {"size": 10}
    made = Cluster(
        NAME,
        {
            **keys,
            "hostCidr": CIDR,
            "existingNetwork": {"network": SITE, "subnet": SITE},
            "floatingIp": site.floating_ip,
            "workerPools": pools(site),
        },
    )
    made.set_secret("sshPrivateKey", site.private_key)
    # What an earlier run in the same lab has left.
    made.stack.configure({"previousSshPrivateKey": None})
    with made.running():
        yield made


def test_every_node_is_ready_and_so_is_the_existing_machine(cluster: Cluster) -> None:
    names = ["bare-0", "options-control-plane-0", "options-tainted-0", "options-worker-0"]
    assert cluster.nodes() == dict.fromkeys(names, True)


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}


def test_the_pools_labels_and_taints_are_on_its_nodes(cluster: Cluster) -> None:
    assert labels(cluster) == {"example.org/disk": "fast", "example.org/rack": "a"}
    assert taints(cluster) == [TAINT]


def test_the_cluster_is_at_the_address_that_was_asked_for(cluster: Cluster, site: Site) -> None:
    assert cluster.endpoint == f"https://{site.floating_ip}:6443"


def test_etcd_is_on_its_volume_and_workers_boot_from_theirs(cluster: Cluster) -> None:
    volumes = {each["Name"] or each["ID"]: each for each in openstack("volume", "list")}
    sizes = sorted(each["Size"] for each in volumes.values())
    assert sizes == [2, 10]
    mount = cluster.ssh(
        "options-control-plane-0", "findmnt --noheadings --output TARGET /var/lib/etcd"
    )
    assert mount.strip() == "/var/lib/etcd"


def test_a_secret_is_encrypted_in_etcd_and_the_audit_log_shows_access_to_it(
    cluster: Cluster,
) -> None:
    cluster.kubectl("create", "secret", "generic", "hidden", "--from-literal=key=find-me")
    key = "/registry/secrets/default/hidden"
    answer = json.loads(cluster.etcdctl("options-control-plane-0", "get", key, "--write-out=json"))
    stored = base64.b64decode(answer["kvs"][0]["value"])
    assert stored.startswith(b"k8s:enc:")
    assert b"find-me" not in stored
    log = cluster.ssh("options-control-plane-0", "sudo cat /var/log/kubernetes/audit.log")
    assert '"resource":"secrets","namespace":"default","name":"hidden"' in log
    assert "find-me" not in log
    assert base64.b64encode(b"find-me").decode() not in log


def test_pods_reach_each_other_on_every_kind_of_node(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=PODS)
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s")
    pods = json.loads(cluster.kubectl("get", "pods", "-o", "json"))["items"]
    where = {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods}
    assert set(where) == {"bare-0", "options-tainted-0", "options-worker-0"}
    for pod in pods:
        for address in where.values():
            cluster.kubectl(
                *("exec", pod["metadata"]["name"], "--"),
                *("wget", "-q", "-T", "5", "-O", "-", f"http://{address}:8080/hostname"),
            )


def test_changed_labels_taints_and_settings_of_kube_proxy_reach_a_running_cluster(
    cluster: Cluster, site: Site
) -> None:
    extra = settings.cluster(image=site.image)["kubeProxy"]["extraConfig"]
    before = pods_of_kube_proxy(cluster)
    cluster.up(
        workerPools=pools(site, labels={"example.org/disk": "slow"}, taints=[]),
        kubeProxy={"extraConfig": {**extra, "configSyncPeriod": "10m0s"}},
    )
    assert labels(cluster) == {"example.org/disk": "slow"}
    assert taints(cluster) == []
    stored = cluster.kubectl("-n", "kube-system", "get", "configmap", "kube-proxy", "-o", "yaml")
    assert "configSyncPeriod: 10m0s" in stored
    cluster.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy")
    assert not pods_of_kube_proxy(cluster) & before
    assert cluster.up() == {}


def labels(cluster: Cluster) -> dict[str, str]:
    """Labels of the pool's node that come from the pool."""
    found: dict[str, str] = node(cluster)["metadata"]["labels"]
    return {key: value for key, value in found.items() if key.startswith("example.org/")}


def taints(cluster: Cluster) -> list[dict[str, str]]:
    """Taints of the pool's node."""
    found: list[dict[str, str]] = node(cluster)["spec"].get("taints", [])
    return found


def node(cluster: Cluster) -> dict[str, Any]:
    """The pool's node."""
    found: dict[str, Any] = json.loads(
        cluster.kubectl("get", "node", "options-tainted-0", "-o", "json")
    )
    return found


def pods_of_kube_proxy(cluster: Cluster) -> set[str]:
    """Names of kube-proxy's pods; a new pod has a new name."""
    listed = cluster.kubectl(
        *("-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-proxy", "-o", "name")
    )
    return set(listed.split())


def test_another_key_of_ones_own_replaces_it_on_existing_machines_too(
    cluster: Cluster, site: Site, tmp_path: Path
) -> None:
    before, old = cluster.servers(), site.private_key
    new, _ = keypair(tmp_path, "new")
    cluster.set_secret("sshPrivateKey", new)
    refused = cluster.stack.pulumi("preview", check=False, capture=True)
    assert "previousSshPrivateKey" in refused.stdout + refused.stderr
    cluster.set_secret("previousSshPrivateKey", old)
    cluster.stack.pulumi("preview", capture=True)
    cluster.up()
    assert cluster.servers() == before
    for machine in ["options-gateway-0", *cluster.nodes()]:
        assert opened_by(cluster, machine, new, new), machine
        assert not opened_by(cluster, machine, old, new), machine
    assert set(cluster.up(previousSshPrivateKey=None)) == {"delete"}
    assert cluster.up() == {}
    assert all(cluster.nodes().values())


def test_a_change_of_an_immutable_setting_is_refused(cluster: Cluster) -> None:
    made_with = settings.cluster(image="")
    # The default.
    pods = "10.244.0.0/16"

    def configure(pod_cidr: str, etcd_size: int) -> None:
        control_plane = {**made_with["controlPlane"], "etcdVolume": {"size": etcd_size}}
        cluster.stack.configure({"podCidr": pod_cidr, "controlPlane": control_plane})

    configure("10.128.0.0/16", 3)
    refused = cluster.stack.pulumi("preview", check=False, capture=True)
    configure(pods, 2)
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert f"podCidr = 10.128.0.0/16: the cluster was created with {pods}" in said
    assert "etcdVolume.size = 3: the volume options-control-plane-0-etcd has 2 GiB" in said


def test_destroy_leaves_what_existed_before(cluster: Cluster, site: Site) -> None:
    cluster.destroy()
    left = left_in_project()
    assert set(left) <= {"server", "port", "router", "floating ip", "network", "security group"}
    assert left["security group"] == [SITE]
    assert len(left["server"]) == len(left["floating ip"]) == 1
    assert openstack("floating", "ip", "show", site.floating_ip)["port_id"] is None


PODS = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      tolerations: [{key: example.org/only, operator: Exists}]
      containers:
      - name: web
        image: docker.io/lab/busybox:1
        imagePullPolicy: Never
        command: [httpd, -f, -p, "8080", -h, /etc]
"""
