"""The smallest cluster, end to end: one gateway, one control plane, one worker, then one more."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab import image, settings
from lab.errors import LabError
from tests.lab.cluster import UP, Cluster, left_in_project, openstack, run
from tests.smoke.live import until

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer, labels: {app: writer}}
spec:
  containers:
  - name: writer
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "echo kept > /data/file; sleep 3600"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""

# A pod in its node's network, or in that of the pods.
SLEEPER = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {app}}}}}
spec:
  nodeName: {node}
  hostNetwork: {host_network}
  containers:
  - name: sleeper
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sleep, "3600"]
"""

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

WEB_PORT, DNS_PORT = 31080, 31053
# The image has no server for UDP, so the cluster's own name servers are the other Service.
NODE_PORTS = f"""
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default, labels: {{app: node-port}}}}
spec:
  type: NodePort
  selector: {{app: node-port-web}}
  ports: [{{port: 8080, nodePort: {WEB_PORT}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: dns, namespace: kube-system, labels: {{app: node-port}}}}
spec:
  type: NodePort
  selector: {{k8s-app: kube-dns}}
  ports: [{{port: 53, protocol: UDP, nodePort: {DNS_PORT}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: default, labels: {{app: node-port-web}}}}
spec:
  nodeName: small-worker-0
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [httpd, -f, -p, "8080", -h, /etc]
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The cluster; it is destroyed at the end, also after a failure."""
    small = Cluster(
        "small", settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    )
    # What an earlier run in the same lab has left.
    small.stack.configure({"rotation": None, "keepVolumes": None})
    try:
        small.up()
        yield small
    finally:
        small.destroy()


def test_every_node_is_ready(cluster: Cluster) -> None:
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}


def test_no_server_holds_a_lasting_secret_in_its_user_data(cluster: Cluster) -> None:
    outputs = cluster.stack.outputs()
    state = cluster.stack.pulumi("stack", "export", "--show-secrets", capture=True).stdout
    keys = {
        resource["urn"].rsplit("::", 1)[-1]: json.loads(
            resource["outputs"]["privateKeyPem"]["plaintext"]
        )
        for resource in json.loads(state)["deployment"]["resources"]
        if resource["type"].endswith(":PrivateKey")
    }
    assert keys
    for server in openstack("server", "list"):
        shown = openstack("server", "show", server["ID"], "--os-compute-api-version", "2.3")
        user_data = base64.b64decode(shown["OS-EXT-SRV-ATTR:user_data"] or "").decode()
        assert "one-time" not in user_data
        assert outputs["sshPrivateKey"] not in user_data
        for name, key in keys.items():
            body = key.splitlines()[1]
            assert body not in user_data, (server["Name"], name)


def boot_host_keys() -> dict[str, str]:
    """Name of each server to the SSH host key that it booted with."""
    found = {}
    for server in openstack("server", "list"):
        shown = openstack("server", "show", server["ID"], "--os-compute-api-version", "2.3")
        user_data = base64.b64decode(shown["OS-EXT-SRV-ATTR:user_data"])
        found[server["Name"]] = yaml.safe_load(user_data)["ssh_keys"]["ed25519_public"]
    return found


def test_every_server_boots_with_an_ssh_host_key_of_its_own_and_each_replacement_too(
    cluster: Cluster,
) -> None:
    keys = [boot_host_keys()]
    for _ in range(2):
        changes = cluster.up("--replace", "**:Instance::small-worker-0")
        assert changes["replace"]
        keys.append(boot_host_keys())
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    assert len(set(keys[0].values())) == len(keys[0]) == 3
    assert len({each["small-worker-0"] for each in keys}) == 3
    assert all(each["small-gateway-0"] == keys[0]["small-gateway-0"] for each in keys)
    assert cluster.up() == {}


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
    worker("sudo rm /root/stolen.* /root/token.conf /root/impostor")


def execute(cluster: Cluster, pod: str, *command: str) -> str:
    """Run a command in a pod; returns its output, empty when it fails."""
    return cluster.kubectl("exec", pod, "--", *command, check=False).strip()


def metadata(cluster: Cluster, pod: str) -> str:
    """Answer of the cloud's metadata service to a pod; empty without one."""
    url = "http://169.254.169.254/openstack/latest/meta_data.json"
    return execute(cluster, pod, "wget", "-q", "-T", "5", "-O", "-", url)


def start_sleeper(cluster: Cluster, name: str, app: str, node: str, host_network: str) -> None:
    """Start a pod that does nothing by itself, on that node."""
    pod = SLEEPER.format(name=name, app=app, node=node, host_network=host_network)
    cluster.kubectl("apply", "-f", "-", stdin=pod)


def boots(cluster: Cluster) -> dict[str, str]:
    """Node name -> id of its current boot; empty while the API is not available."""
    listed = cluster.kubectl("get", "nodes", "-o", "json", check=False)
    items = json.loads(listed)["items"] if listed else []
    return {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in items}


def test_the_metadata_service_answers_nodes_but_no_pods(cluster: Cluster) -> None:
    for name, host_network in (("in-nodes", "true"), ("in-pods", "false")):
        start_sleeper(cluster, name, "network", "small-worker-0", host_network)
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=network", "--timeout=120s")
    assert "small-worker-0" in metadata(cluster, "in-nodes")
    assert metadata(cluster, "in-pods") == ""


def test_a_node_port_answers_every_node_at_every_other_nodes_address(cluster: Cluster) -> None:
    addresses = {each["name"]: each["address"] for each in cluster.stack.outputs()["nodes"]}
    assert len(addresses) == 2
    cluster.kubectl("apply", "-f", "-", stdin=NODE_PORTS)
    for node in addresses:
        start_sleeper(cluster, f"on-{node}", "node-port", node, "true")
    ready = ("--for=condition=Ready", "pod", "--timeout=120s")
    cluster.kubectl("wait", *ready, "-l", "app in (node-port, node-port-web)")

    def tcp_answers(client: str, address: str) -> bool:
        url = f"http://{address}:{WEB_PORT}/hostname"
        return execute(cluster, client, "wget", "-q", "-T", "5", "-O", "-", url) == "web"

    def udp_answers(client: str, address: str) -> bool:
        name = "kubernetes.default.svc.cluster.local"
        server = f"{address}:{DNS_PORT}"
        return "Name:" in execute(cluster, client, "nslookup", "-type=a", name, server)

    for node, other in itertools.permutations(addresses, 2):
        for protocol, answers in (("TCP", tcp_answers), ("UDP", udp_answers)):
            asked = functools.partial(answers, f"on-{node}", addresses[other])
            until(asked, f"an answer by {protocol} from {other} to {node}", 60)
    cluster.kubectl("delete", "pods", "-l", "app in (node-port, node-port-web)", "--now")
    cluster.kubectl("delete", "services", "-A", "-l", "app=node-port")


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


def test_the_smoke_tests_pass(cluster: Cluster) -> None:
    checks = run(
        *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "tests/smoke"),
        KUBECONFIG=str(cluster.kubeconfig),
        SMOKE_IMAGE="docker.io/lab/busybox:1",
    )
    print(checks)
    assert "6 passed" in checks


def test_adding_a_worker_touches_no_other_machine(cluster: Cluster) -> None:
    before = {s["Name"]: s["ID"] for s in openstack("server", "list")}
    changes = cluster.up(workerCount=2)
    after = {s["Name"]: s["ID"] for s in openstack("server", "list")}
    assert cluster.nodes()["small-worker-1"]
    assert before.items() <= after.items()
    assert set(changes) == {"create"}


def test_a_worker_that_leaves_is_drained_first(cluster: Cluster) -> None:
    cluster.up(workerCount=1)
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}


def test_the_kubeconfig_works_through_the_floating_ip(cluster: Cluster) -> None:
    endpoint = cluster.stack.outputs()["apiEndpoint"]
    assert endpoint in cluster.kubectl("cluster-info")
    assert run("curl", "-sk", f"{endpoint}/readyz") == "ok"


def may_do_everything(kubeconfig: Path) -> bool:
    """Tell if the cluster takes the user of this kubeconfig for an administrator."""
    asked = ("kubectl", "auth", "can-i", "*", "*", "--all-namespaces")
    answer = run(*asked, check=False, KUBECONFIG=str(kubeconfig)).strip()
    assert answer in ("yes", "no")
    return answer == "yes"


def test_a_kubeconfig_of_hours_names_a_person_and_ends(cluster: Cluster) -> None:
    made = cluster.stack.folder / "ada"
    cluster.command("kubeconfig", "--hours", "2", "--user", "ada", "--output", str(made))
    assert may_do_everything(made)
    review = run("kubectl", "auth", "whoami", "-o", "json", KUBECONFIG=str(made))
    assert json.loads(review)["status"]["userInfo"]["username"] == "ada"
    [user] = yaml.safe_load(made.read_text())["users"]
    certificate = base64.b64decode(user["user"]["client-certificate-data"])
    ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    assert timedelta(hours=1) < ends - datetime.now(UTC) <= timedelta(hours=2)
    assert "kubeconfig-" not in cluster.kubectl("get", "certificatesigningrequests")


def test_a_leaked_kubeconfig_is_refused_after_a_rotation(cluster: Cluster) -> None:
    leaked, made = cluster.stack.folder / "leaked", cluster.stack.folder / "made"
    shutil.copy(cluster.kubeconfig, leaked)
    cluster.command("kubeconfig", "--output", str(made))
    assert may_do_everything(leaked)
    assert may_do_everything(made)
    servers = {server["ID"] for server in openstack("server", "list")}

    cluster.up(rotation={"kubeconfig": 2})

    assert not may_do_everything(leaked)
    assert not may_do_everything(made)
    assert may_do_everything(cluster.kubeconfig)
    assert all(cluster.nodes().values())
    assert {server["ID"] for server in openstack("server", "list")} == servers
    assert cluster.up() == {}


def test_a_protected_cluster_is_not_destroyed(cluster: Cluster) -> None:
    before = openstack("server", "list")
    assert cluster.up(deletionProtection=True) == {}
    # Also without a preview, which would refuse first.
    with pytest.raises(LabError, match="small-deletion-protection"):
        cluster.stack.pulumi("destroy", "--yes", "--skip-preview", capture=True)
    assert openstack("server", "list") == before
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    assert cluster.up(deletionProtection=False) == {}


def test_destroy_leaves_the_retained_volume_and_nothing_else(cluster: Cluster) -> None:
    keeper = re.sub(r"\bdata\b", "kept", CLAIM).replace("writer", "keeper")
    cluster.kubectl("apply", "-f", "-", stdin=keeper)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/keeper", "--timeout=180s")
    name = cluster.kubectl("get", "pvc", "kept", "-o", "jsonpath={.spec.volumeName}")
    volume = cluster.kubectl("get", "pv", name, "-o", "jsonpath={.spec.csi.volumeHandle}")
    retain = json.dumps({"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    cluster.kubectl("patch", "pv", name, "-p", retain)
    assert len(openstack("volume", "list")) == 2
    cluster.up(keepVolumes=True)
    cluster.destroy()
    assert [each["ID"] for each in openstack("volume", "list")] == [volume]
    run("openstack", "volume", "delete", volume)
    until(lambda: left_in_project() == {}, "an empty project", 60)
