"""Keys, credentials and certificate authorities of a highly available cluster are replaced."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bench.figures import Figures, seconds
from lab import image, settings
from lab.cluster import Cluster, openstack, run
from lab.poll import Poll
from lab.until import until
from tests.lab import kills
from tests.lab.kubeconfigs import copied, may_do_everything, user_of
from tests.lab.login_keys import host_keys, on_disk
from tests.lab.secrets_at_rest import stored_with

NAME = "keys"
CONTROL_PLANES = [f"{NAME}-control-plane-{index}" for index in range(3)]
NODES = [*CONTROL_PLANES, f"{NAME}-worker-0", f"{NAME}-worker-1"]
PKI = "/etc/kubernetes/pki"
CREDENTIAL_USERS = ("openstack-cloud-controller-manager", "openstack-cinder-csi")
# Each test continues from those before it: no number may go back.
KEYS = dict.fromkeys(("encryptionKey", "serviceAccountKey", "sshKey", "hostKeys", "kubeconfig"), 2)
ALL = {**KEYS, "cloudCredential": 2}
LONGEST_ROTATION = 600


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two gateways, three control planes, two workers; they are destroyed at the end."""
    made = Cluster(NAME, settings.cluster(image=image.ensure()))
    # What an earlier run in the same lab has left.
    made.stack.configure({"rotation": None})
    with made.running():
        yield made


@pytest.fixture(scope="module")
def first_kubeconfig(cluster: Cluster) -> Path:
    """A copy of a kubeconfig that knows the first CA only."""
    return copied(cluster, "first-kubeconfig")


@pytest.fixture(scope="module")
def authorities_took() -> list[float]:
    """Seconds of each update that replaces the CAs."""
    return []


def phase(cluster: Cluster) -> tuple[int, str]:
    """Generation and phase of the newest CAs, as the stack says."""
    said = cluster.stack.outputs()["certificateAuthorities"]
    return said["generation"], said["phase"]


def issuer(text: str) -> str:
    """Name of the CA in openssl's output."""
    [found] = re.findall(r"issuer=(?:.*CN ?= ?)?([\w-]+)", text)
    return str(found)


def issuers(cluster: Cluster) -> dict[str, set[str]]:
    """Certificates of all nodes -> names of the CAs that have issued them."""
    found: dict[str, set[str]] = {}
    for node, address in cluster.addresses().items():
        files = {
            f"kubelet {kind}": f"/var/lib/kubelet/pki/kubelet-{kind}-current.pem"
            for kind in ("client", "server")
        }
        asks = {
            name: f"sudo openssl x509 -noout -issuer -in {file}" for name, file in files.items()
        }
        served = {"kubelet": 10250}
        if node in CONTROL_PLANES:
            served |= {"API server": 6443, "etcd": 2379}
        for name, port in served.items():
            connect = f"openssl s_client -connect {address}:{port} </dev/null 2>/dev/null"
            asks[name] = f"{connect} | openssl x509 -noout -issuer"
        for name, ask in asks.items():
            found.setdefault(name, set()).add(issuer(cluster.ssh(node, ask)))
    return found


def pods(cluster: Cluster) -> dict[str, int]:
    """Pods -> restarts of their containers; without static pods and those of metrics-server."""
    return {
        each["metadata"]["name"]: sum(
            status["restartCount"] for status in each["status"].get("containerStatuses", [])
        )
        for each in cluster.pods()
        if "kubernetes.io/config.mirror" not in each["metadata"].get("annotations", {})
        and not each["metadata"]["name"].startswith("metrics-server")
    }


def of(generation: int) -> dict[str, set[str]]:
    """The answer of `issuers` when everything is of this generation."""
    end = "" if generation == 1 else f"-{generation}"
    everything = ("kubelet client", "kubelet server", "kubelet", "API server")
    return {**{each: {f"kubernetes{end}"} for each in everything}, "etcd": {f"etcd-ca{end}"}}


def metrics_work(cluster: Cluster) -> bool:
    """True if metrics-server verifies every kubelet."""
    listed = cluster.kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes", check=False)
    return bool(listed) and len(json.loads(listed)["items"]) == len(NODES)


def accepted_token_keys(cluster: Cluster) -> list[int]:
    """Number of keys of tokens that each API server accepts."""
    ask = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw /openid/v1/jwks --server"
    return [
        len(json.loads(cluster.ssh(node, f"{ask} https://{address}:6443"))["keys"])
        for node, address in cluster.addresses().items()
        if node in CONTROL_PLANES
    ]


def test_other_keys_of_five_kinds_restart_no_pod_and_old_ones_are_refused(
    cluster: Cluster, figures: Figures
) -> None:
    cluster.wait_for_pods(180)
    leaked = copied(cluster, "leaked")
    token = cluster.kubectl("create", "token", "default", "--duration=2h").strip()
    assert "serviceaccount:default" in cluster.kubectl_as(token, "auth", "whoami")
    before, machines = pods(cluster), cluster.servers()
    with Poll(cluster.endpoint) as poll:
        took = seconds(lambda: cluster.up(rotation=KEYS))
    figures.add("five keys in one update", took, at_most=LONGEST_ROTATION)
    assert may_do_everything(cluster.kubeconfig)
    assert not may_do_everything(leaked)
    assert cluster.kubectl_as(token, "auth", "whoami") == ""
    assert accepted_token_keys(cluster) == [1, 1, 1]
    assert set(stored_with(cluster, CONTROL_PLANES[0])) == {"key02"}
    shown = host_keys(cluster)
    gateways = {f"{NAME}-gateway-{index}": shown[f"{NAME}-gateway-0"][2] for index in range(2)}
    for machine, host_key in {**gateways, **{name: shown[name][2] for name in NODES}}.items():
        assert on_disk(cluster, machine) == [host_key]
        said = cluster.fleet("ssh", NAME, machine, "wc -l <.ssh/authorized_keys")
        assert said.strip() == "1"
    assert cluster.servers() == machines
    assert cluster.nodes() == dict.fromkeys(NODES, True)
    assert pods(cluster) == before
    # A poll may fall into the moment in which an API server stops.
    assert poll.longest < 3, poll.longest


def test_another_cloud_credential_restarts_only_those_that_use_it(
    cluster: Cluster, figures: Figures
) -> None:
    def others() -> dict[str, int]:
        found = pods(cluster).items()
        return {pod: restarts for pod, restarts in found if not pod.startswith(CREDENTIAL_USERS)}

    before = others()
    [old] = openstack("application", "credential", "list")
    with Poll(cluster.endpoint) as poll:
        took = seconds(lambda: cluster.up(rotation=ALL))
    figures.add("cloud credential", took, at_most=LONGEST_ROTATION)
    [new] = openstack("application", "credential", "list")
    assert new["ID"] != old["ID"]
    assert others() == before
    assert poll.failed == 0
    cluster.wait_for_pods(180)
    assert cluster.up() == {}


def test_a_preview_says_what_comes_and_one_number_follows_the_other(cluster: Cluster) -> None:
    cluster.stack.configure({"rotation": {**ALL, "certificateAuthorities": 3}})
    refused = cluster.stack.pulumi("preview", check=False, capture=True)
    assert refused.returncode != 0
    assert "the cluster has 1: set it to 2 first" in refused.stdout + refused.stderr
    cluster.stack.configure({"rotation": {**ALL, "certificateAuthorities": 2}})
    said = cluster.stack.pulumi("preview", capture=True).stdout
    assert "rotation.certificateAuthorities = 2, update 1 of 3" in said
    assert issuers(cluster) == of(1)


def test_the_new_authorities_issue_everything_and_no_pod_or_client_notices(
    cluster: Cluster, first_kubeconfig: Path, authorities_took: list[float]
) -> None:
    cluster.wait_for_pods(180)
    before, machines = pods(cluster), cluster.servers()
    with Poll(cluster.endpoint) as poll:
        rotation = {**ALL, "certificateAuthorities": 2}
        authorities_took.append(seconds(lambda: cluster.up(rotation=rotation)))
    assert phase(cluster) == (2, "issue")
    assert issuers(cluster) == of(2)
    assert all(cluster.nodes().values())
    assert user_of(first_kubeconfig) == "administrator"
    assert cluster.servers() == machines
    assert pods(cluster) == before
    until(lambda: metrics_work(cluster), "metrics of every node", 180)
    assert poll.longest < 3, poll.longest


def test_the_kubeconfig_is_of_the_new_authorities_and_the_old_one_still_works(
    cluster: Cluster, first_kubeconfig: Path, authorities_took: list[float]
) -> None:
    with Poll(cluster.endpoint) as poll:
        authorities_took.append(seconds(cluster.up))
    assert phase(cluster) == (2, "use")
    login = yaml.safe_load(cluster.kubeconfig.read_text())
    certificate = base64.b64decode(login["users"][0]["user"]["client-certificate-data"]).decode()
    told = run("openssl", "x509", "-noout", "-issuer", stdin=certificate)
    assert issuer(told) == "kubernetes-2"
    assert user_of(cluster.kubeconfig) == user_of(first_kubeconfig) == "administrator"
    assert poll.failed == 0


def test_then_nothing_accepts_the_old_authorities(
    cluster: Cluster, first_kubeconfig: Path, authorities_took: list[float], figures: Figures
) -> None:
    before = pods(cluster)
    old = cluster.ssh(CONTROL_PLANES[0], f"sudo cat {PKI}/ca.crt")
    assert old.count("BEGIN") == 2
    with Poll(cluster.endpoint) as poll:
        authorities_took.append(seconds(cluster.up))
    for number, took in enumerate(authorities_took, start=1):
        figures.add(f"certificate authorities, update {number}", took)
    figures.add("certificate authorities", sum(authorities_took), at_most=LONGEST_ROTATION)
    assert phase(cluster) == (2, "done")
    assert user_of(cluster.kubeconfig) == "administrator"
    assert user_of(first_kubeconfig) == ""
    for node in CONTROL_PLANES:
        for name in ("ca", "front-proxy-ca", "etcd/ca"):
            assert cluster.ssh(node, f"sudo grep -c BEGIN {PKI}/{name}.crt").strip() == "1"
    assert cluster.ssh(NODES[-1], f"sudo grep -c BEGIN {PKI}/ca.crt").strip() == "1"
    # The scheduler and metrics-server trust what this says.
    published = ("-n", "kube-system", "get", "configmap", "extension-apiserver-authentication")
    assert cluster.kubectl(*published, "-o", "jsonpath={.data.client-ca-file}").count("BEGIN") == 1
    assert pods(cluster) == before
    assert poll.longest < 3, poll.longest
    assert cluster.up() == {}


def test_a_machine_joins_with_the_new_authorities(cluster: Cluster) -> None:
    cluster.up(workerCount=3)
    assert cluster.nodes() == dict.fromkeys([*NODES, f"{NAME}-worker-2"], True)
    cluster.up(workerCount=2)
    cluster.up("--replace", f"**:Instance::{CONTROL_PLANES[0]}")
    assert cluster.nodes() == dict.fromkeys(NODES, True)
    assert issuers(cluster) == of(2)


@kills.SEEDED
def test_killed_rotations_continue(cluster: Cluster, seed: int) -> None:
    rotation = {**ALL, "certificateAuthorities": 3}
    for moment in kills.draw(seed, 5, 5, 200):
        if cluster.killed_up(moment, rotation=rotation):
            cluster.recover()
    for _ in range(3):
        cluster.up()
    assert phase(cluster)[0] == 3
    assert issuers(cluster) == of(3)
    assert cluster.nodes() == dict.fromkeys(NODES, True)
    cluster.wait_for_pods(180)


def test_control_planes_leave_after_the_rotations(cluster: Cluster) -> None:
    cluster.up(controlPlaneCount=1)
    assert cluster.nodes() == dict.fromkeys([CONTROL_PLANES[0], *NODES[-2:]], True)
    assert cluster.up() == {}
