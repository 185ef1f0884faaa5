"""Root on a worker, who asks for the certificate of a control plane."""

from __future__ import annotations

import base64
import functools
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.cluster import UP, Cluster
from lab.errors import LabError

SCRIPT = "/usr/local/lib/openstack-kubernetes/current/worker/worker.sh"
# What root on a worker puts in the place of its script: it says that the machine is new, restarts
# the kubelet, which registers the Node again, and asks for another node's certificate with the
# token that it is handed. In the end it joins, so that no one notices.
IMPOSTOR = """#!/bin/bash
case $1 in
  state)
    if [[ -e /root/register ]]; then
      systemctl restart kubelet.service
      until kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node "$(hostname)"; do
        sleep 1
      done >/dev/null 2>&1
    fi
    echo new
    ;;
  finish) exit 1 ;;
  join)
    umask 077
    cat >/root/token.conf
    kubectl --kubeconfig /root/token.conf create -f /root/stolen.json
    for _ in {1..20}; do
      kubectl --kubeconfig /root/token.conf get csr stolen -o 'jsonpath={.status.certificate}'
      sleep 1
    done >/root/stolen.pem
    "$0.real" reset
    "$0.real" join </root/token.conf
    ;;
esac
"""


def client_certificate(name: str, node: str) -> str:
    """A request for the client certificate of a node, as the API takes it."""
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return json.dumps(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "request": base64.b64encode(pem).decode(),
                "usages": ["digital signature", "client auth"],
            },
        }
    )


def test_root_on_a_worker_does_not_become_a_control_plane(cluster: Cluster) -> None:
    wanted = client_certificate("stolen", "small-control-plane-0")
    worker = functools.partial(cluster.ssh, "small-worker-0")
    kubelet = "sudo kubectl --kubeconfig /etc/kubernetes/kubelet.conf"
    refused = worker(f"echo '{wanted}' | {kubelet} create -f - 2>&1 || true")
    assert "can only create a node CSR with CN=system:node:small-worker-0" in refused

    for path, text in (("/root/stolen.json", wanted), ("/root/impostor", IMPOSTOR)):
        encoded = base64.b64encode(text.encode()).decode()
        worker(f"echo {encoded} | base64 -d | sudo tee {path} >/dev/null")
    worker(f"sudo cp -p {SCRIPT} {SCRIPT}.real")
    worker(f"sudo touch /root/register && sudo install -m 0755 /root/impostor {SCRIPT}")
    try:
        again = ("--replace", "**:Command::small-worker-0-membership")
        with pytest.raises(LabError, match="it gets no token"):
            cluster.stack.pulumi(*UP, *again, capture=True)
        worker("sudo rm /root/register")
        cluster.kubectl("delete", "node", "small-worker-0")
        cluster.up()
    finally:
        worker(f"sudo mv {SCRIPT}.real {SCRIPT}")
    assert "token: " in worker("sudo cat /root/token.conf")
    assert worker("sudo cat /root/stolen.pem") == ""
    asked = cluster.kubectl("get", "csr", "stolen", "-o", "jsonpath={.spec.username}")
    assert asked.startswith("system:bootstrap:")
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    worker("sudo rm /root/stolen.json /root/stolen.pem /root/token.conf /root/impostor")
