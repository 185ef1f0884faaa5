"""Certificates with minutes to live, which no person and no update renews."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Iterator

import pytest
import yaml
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from config import ports
from lab import image, settings
from lab.cluster import Cluster, openstack
from lab.poll import Poll
from lab.until import until
from tests.lab import history, register

CONTROL_PLANES = [f"certs-control-plane-{index}" for index in range(3)]
NODES = [*CONTROL_PLANES, "certs-worker-0"]
PKI = "/etc/kubernetes/pki"
UNIT = "openstack-kubernetes-certificates"
INIT = "/etc/openstack-kubernetes/kubeadm-init.yaml"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
ADDRESS_LABEL = "node-restriction.kubernetes.io/openstack-kubernetes-address"

# Certificates live for 15 minutes and are renewed in their last five, one machine at a time.
within_a_life = retry(
    retry=retry_if_exception_type(AssertionError),
    stop=stop_after_delay(15 * 60),
    wait=wait_fixed(10),
    reraise=True,
)

# What a machine has that was off for a year: expired certificates, the kubelet's too.
EXPIRE = f"""
set -e
systemctl stop {UNIT}.timer {UNIT}.service
cd $(mktemp -d)
sed 's/certificateValidityPeriod:.*/certificateValidityPeriod: 10s/' {INIT} >short.yaml
kubeadm certs renew all --config short.yaml >/dev/null
kubeadm init phase kubeconfig kubelet --config short.yaml --kubeconfig-dir $PWD >/dev/null
for part in certificate key; do
  sed -n "s/^ *client-$part-data: //p" kubelet.conf | base64 -d
done >$(readlink -f {KUBELET})
sleep 11
crictl ps --quiet --name '^(etcd|kube-apiserver)$' | xargs crictl stop --timeout 5
systemctl restart --no-block kubelet.service
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three control planes whose certificates live for a quarter of an hour."""
    wanted = settings.cluster(image=image.ensure(), gateways=1, control_planes=3, workers=1)
    wanted["kubeadm"]["certificateValidityPeriod"] = "15m"
    certs = Cluster("certs", wanted)
    with certs.running():
        yield certs


def served(cluster: Cluster, node: str) -> list[str]:
    """Serial numbers of what a control plane's API server and etcd show to their clients."""
    shown = [
        f"openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null | "
        "openssl x509 -noout -serial"
        for port in (ports.API, ports.ETCD_CLIENT)
    ]
    return cluster.ssh(node, " && ".join(shown)).split()


def test_the_api_server_trusts_every_kubelet(cluster: Cluster) -> None:
    addresses = cluster.addresses()
    for node in NODES:
        assert cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/healthz") == "ok"
        shown = cluster.ssh(
            CONTROL_PLANES[0],
            f"openssl s_client -connect {addresses[node]}:10250 -CAfile {PKI}/ca.crt "
            "</dev/null 2>&1",
        )
        assert "Verify return code: 0 (ok)" in shown


def test_root_on_a_worker_gets_no_certificate_for_another_node(cluster: Cluster) -> None:
    kubelet = "sudo kubectl --kubeconfig /etc/kubernetes/kubelet.conf"
    victim = cluster.addresses()[CONTROL_PLANES[0]]
    labeled = cluster.ssh(
        "certs-worker-0",
        f"{kubelet} label node certs-worker-0 {ADDRESS_LABEL}={victim} --overwrite 2>&1 || true",
    )
    assert "is not allowed to modify labels" in labeled
    made = cluster.ssh(
        "certs-worker-0",
        "openssl ecparam -name prime256v1 -genkey -noout -out stolen.key && openssl req -new "
        "-key stolen.key -subj /O=system:nodes/CN=system:node:certs-worker-0 "
        f"-addext subjectAltName=DNS:certs-worker-0,IP:{victim}",
    )
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "stolen"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving",
            "request": base64.b64encode(made.encode()).decode(),
            "usages": ["digital signature", "server auth"],
        },
    }
    cluster.ssh("certs-worker-0", f"echo '{json.dumps(request)}' | {kubelet} create -f -")
    for node in CONTROL_PLANES:
        cluster.ssh(node, f"sudo systemctl start {UNIT}")
    left = json.loads(cluster.kubectl("get", "csr", "stolen", "-o", "json"))
    assert not left["status"].get("conditions")
    said = cluster.ssh(CONTROL_PLANES[0], f"sudo journalctl --unit={UNIT} --output=cat")
    assert f"certs-worker-0 asks for a serving certificate for IP:{victim}" in said


def test_every_control_plane_renews_its_certificates_and_no_client_notices(
    cluster: Cluster,
) -> None:
    before = {serial for node in CONTROL_PLANES for serial in served(cluster, node)}
    operations = cluster.stack.folder / "operations"
    cluster.kubectl("create", "configmap", register.NAME, "--from-literal=number=0")

    @within_a_life
    def restarted() -> None:
        assert not [node for node in CONTROL_PLANES if before.intersection(served(cluster, node))]

    began = history.now()
    with Poll(cluster.endpoint) as poll, register.counting(cluster.kubeconfig, operations):
        restarted()
    assert all(cluster.nodes().values())
    # A request that is tried again for a second or two has an answer.
    assert poll.longest < 3, poll.longest
    written = history.load(operations)
    assert history.violations(written) == []
    assert history.silence(history.written(written), began, history.now()) < 5


def test_certificates_that_have_all_expired_are_renewed_without_a_person(
    cluster: Cluster,
) -> None:
    for node in CONTROL_PLANES:
        cluster.ssh(node, f"sudo bash -c {shlex.quote(EXPIRE)}")
    answered = cluster.kubectl("get", "nodes", "--request-timeout=20s", check=False)
    assert answered == "", answered
    for node in CONTROL_PLANES:
        cluster.ssh(node, f"sudo systemctl start {UNIT}.timer")

    @within_a_life
    def back() -> None:
        assert cluster.nodes() == dict.fromkeys(NODES, True)

    back()


def test_a_worker_whose_certificate_has_expired_joins_again_on_the_same_server(
    cluster: Cluster,
) -> None:
    made = cluster.ssh(
        CONTROL_PLANES[0],
        f"sudo kubeadm kubeconfig user --config {INIT} --client-name system:node:certs-worker-0 "
        "--org system:nodes --validity-period 10s 2>/dev/null",
    )
    [user] = yaml.safe_load(made)["users"]
    pem = "".join(
        base64.b64decode(user["user"][f"client-{part}-data"]).decode()
        for part in ("certificate", "key")
    )
    expired = f"echo {shlex.quote(pem)} >$(readlink -f {KUBELET}); sleep 11"
    restart = "systemctl restart --no-block kubelet.service"
    cluster.ssh("certs-worker-0", f"sudo bash -c {shlex.quote(f'{expired}; {restart}')}")
    until(lambda: not cluster.nodes()["certs-worker-0"], "certs-worker-0 to be NotReady", 120)
    before = openstack("server", "show", "certs-worker-0")["id"]
    cluster.up("--replace", "**:Command::certs-worker-0-membership")
    assert cluster.nodes() == dict.fromkeys(NODES, True)
    assert openstack("server", "show", "certs-worker-0")["id"] == before


def test_another_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}
