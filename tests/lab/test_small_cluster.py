"""The smallest cluster, end to end: one gateway, one control plane, one worker, then one more."""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from addons import kured
from commands.cloud_cleanup import CSI_MARK
from config.models.addons import Kured
from lab import image, settings
from lab.cloud import layout
from lab.errors import LabError
from tests.lab.cluster import UP, Cluster, left_in_project, openstack, run
from tests.lab.kubeconfigs import copied, may_do_everything
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

# Every line says which pod wrote it, and when.
COUNTER = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: counter}
spec:
  serviceName: counter
  selector: {matchLabels: {app: counter}}
  template:
    metadata: {labels: {app: counter}}
    spec:
      containers:
      - name: counter
        image: docker.io/lab/busybox:1
        imagePullPolicy: Never
        env: [{name: UID_, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]
        command: [sh, -c, "while echo $UID_ $(date +%s) >>/data/log; do sync; sleep 1; done"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""

# What of kured a drain looks at.
KURED = """
apiVersion: v1
kind: Namespace
metadata: {name: kured}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kured, namespace: kured}
spec:
  selector: {matchLabels: {app: kured}}
  template:
    metadata: {labels: {app: kured}}
    spec:
      nodeSelector: {lab: none}
      containers: [{name: kured, image: docker.io/lab/busybox:1}]
"""

ENFORCE = "pod-security.kubernetes.io/enforce"

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

WEB_PORT, DNS_PORT, HOST_PORT = 31080, 31053, 18080
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
    ports: [{{containerPort: 8080, hostPort: {HOST_PORT}}}]
"""


LOCAL_PORT, LOCAL_DNS_PORT = 31081, 31054
LOOKUP = ("nslookup", "-type=a", "kubernetes.default.svc.cluster.local")
WHO_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {{app: who, role: server}}}}
spec:
  nodeName: small-worker-0
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command:
    - sh
    - -c
    - |
      mkdir -p /tmp/www/cgi-bin
      cat >/tmp/www/cgi-bin/who <<'END'
      #!/bin/sh
      printf 'Content-Type: text/plain\\r\\n\\r\\n%s %s' "$(cat /etc/hostname)" "$REMOTE_ADDR"
      END
      chmod +x /tmp/www/cgi-bin/who
      exec httpd -f -p 8080 -h /tmp/www
"""
WHO_SERVICE = """
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: default, labels: {{app: who}}}}
spec:
  selector: {{app: who, role: server}}
  ports: [{{port: 8080{port}}}]
  {spec}
"""
LOCAL_AND_STICKY = "---".join(
    [
        WHO_POD.format(name="who-0"),
        WHO_POD.format(name="who-1"),
        WHO_SERVICE.format(
            name="local",
            port=f", nodePort: {LOCAL_PORT}",
            spec="type: NodePort\n  externalTrafficPolicy: Local",
        ),
        WHO_SERVICE.format(name="spread", port="", spec=""),
        WHO_SERVICE.format(name="sticky", port="", spec="sessionAffinity: ClientIP"),
        f"""
apiVersion: v1
kind: Service
metadata: {{name: local-dns, namespace: kube-system}}
spec:
  type: NodePort
  externalTrafficPolicy: Local
  selector: {{k8s-app: kube-dns}}
  ports: [{{port: 53, protocol: UDP, nodePort: {LOCAL_DNS_PORT}}}]
""",
    ]
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The cluster; it is destroyed at the end, also after a failure."""
    small = Cluster(
        "small", settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    )
    # What an earlier run in the same lab has left.
    changed = ("rotation", "keepVolumes", "cloudCredential", "apiServer", "scheduler", "timeouts")
    small.stack.configure(dict.fromkeys(changed))
    try:
        small.up()
        # The tests' own pods use the network of their nodes.
        small.kubectl(*("label", "namespace", "default"), f"{ENFORCE}=privileged", "--overwrite")
        yield small
    finally:
        small.destroy()


def test_every_node_is_ready(cluster: Cluster) -> None:
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}


def test_a_second_update_changes_nothing(cluster: Cluster) -> None:
    assert cluster.up() == {}


def test_no_copy_of_the_kubeconfig_stays_in_the_folder_for_temporary_files(
    cluster: Cluster,
) -> None:
    # The program's user: the provider of Kubernetes writes a file for each of its starts.
    user = f"name: {cluster.name}-openstack-kubernetes\n"
    texts = (file.read_text() for file in Path(tempfile.gettempdir()).glob("kubeconfig*"))
    assert not any(user in text and cluster.endpoint in text for text in texts)


def user_data(cluster: Cluster) -> dict[str, str]:
    """Name of each server to its user_data, which Nova shows to administrators only."""
    outputs = cluster.stack.outputs()
    names = [each["name"] for each in (*outputs["gateways"], *outputs["nodes"])]
    read = "sudo cat /var/lib/cloud/instance/user-data.txt"
    return {name: cluster.fleet("ssh", cluster.name, name, read) for name in names}


def test_no_server_holds_a_lasting_secret_in_its_user_data(cluster: Cluster) -> None:
    state = cluster.stack.pulumi("stack", "export", "--show-secrets", capture=True).stdout
    keys = [
        json.loads(resource["outputs"][form]["plaintext"])
        for resource in json.loads(state)["deployment"]["resources"]
        if resource["type"].endswith(":PrivateKey")
        for form in ("privateKeyPem", "privateKeyOpenssh")
        if form in resource["outputs"]
    ]
    secret = {line for key in keys for line in key.splitlines()[1:-1]}
    found = user_data(cluster)
    assert len(found) == 3
    for name, text in found.items():
        # Its own one-time key, which begins like every other one.
        own = {line.strip() for line in text.splitlines()}
        beginnings = {line for line in own if line.startswith("b3BlbnNzaC1rZXktdjE")}
        assert len(beginnings) == 1, name
        assert not (secret - beginnings) & own, name


def boot_host_keys(cluster: Cluster) -> dict[str, str]:
    """Name of each server to the SSH host key that it booted with."""
    return {
        name: yaml.safe_load(text)["ssh_keys"]["ed25519_public"]
        for name, text in user_data(cluster).items()
    }


def test_every_server_boots_with_an_ssh_host_key_of_its_own_and_each_replacement_too(
    cluster: Cluster,
) -> None:
    keys = [boot_host_keys(cluster)]
    for _ in range(2):
        changes = cluster.up("--replace", "**:Instance::small-worker-0")
        assert changes["replace"]
        keys.append(boot_host_keys(cluster))
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
    worker("sudo rm /root/stolen.json /root/stolen.pem /root/token.conf /root/impostor")


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


def test_node_ports_answer_every_node_and_a_host_port_its_own(cluster: Cluster) -> None:
    addresses = {each["name"]: each["address"] for each in cluster.stack.outputs()["nodes"]}
    assert len(addresses) == 2
    cluster.kubectl("apply", "-f", "-", stdin=NODE_PORTS)
    for node in addresses:
        start_sleeper(cluster, f"on-{node}", "node-port", node, "true")
    ready = ("--for=condition=Ready", "pod", "--timeout=120s")
    cluster.kubectl("wait", *ready, "-l", "app in (node-port, node-port-web)")

    def tcp_answers(client: str, address: str, port: int = WEB_PORT) -> bool:
        url = f"http://{address}:{port}/hostname"
        return execute(cluster, client, "wget", "-q", "-T", "5", "-O", "-", url) == "web"

    def udp_answers(client: str, address: str) -> bool:
        name = "kubernetes.default.svc.cluster.local"
        server = f"{address}:{DNS_PORT}"
        return "Name:" in execute(cluster, client, "nslookup", "-type=a", name, server)

    for node, other in itertools.permutations(addresses, 2):
        for protocol, answers in (("TCP", tcp_answers), ("UDP", udp_answers)):
            asked = functools.partial(answers, f"on-{node}", addresses[other])
            until(asked, f"an answer by {protocol} from {other} to {node}", 60)
    worker = "small-worker-0"
    assert tcp_answers(f"on-{worker}", addresses[worker], HOST_PORT)
    cluster.kubectl("delete", "pods", "-l", "app in (node-port, node-port-web)", "--now")
    cluster.kubectl("delete", "services", "-A", "-l", "app=node-port")


def test_a_service_with_local_traffic_sees_its_client_and_one_with_affinity_keeps_it(
    cluster: Cluster,
) -> None:
    control_plane, worker = "small-control-plane-0", "small-worker-0"
    addresses = {each["name"]: each["address"] for each in cluster.stack.outputs()["nodes"]}
    cluster.kubectl("apply", "-f", "-", stdin=LOCAL_AND_STICKY)
    for node in addresses:
        start_sleeper(cluster, f"on-{node}", "who", node, "true")
    start_sleeper(cluster, "client", "who", worker, "false")
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=who", "--timeout=120s")

    def who(client: str, server: str) -> str:
        """The pod that answers, and the client that it sees; empty without an answer."""
        url = f"http://{server}/cgi-bin/who"
        return execute(cluster, client, "wget", "-q", "-T", "5", "-O", "-", url)

    # Both pods run on the worker. From the control plane: its own port leads nowhere.
    there = f"{addresses[worker]}:{LOCAL_PORT}"
    until(lambda: who(f"on-{control_plane}", there) != "", "an answer of the worker", 60)
    assert addresses[control_plane] in who(f"on-{control_plane}", there)
    assert who(f"on-{worker}", f"{addresses[control_plane]}:{LOCAL_PORT}") == ""
    lost = execute(cluster, f"on-{worker}", *LOOKUP, f"{addresses[control_plane]}:{LOCAL_DNS_PORT}")
    # By UDP, too: name servers run on a node, or they do not.
    hosts = cluster.kubectl(
        *("-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns"),
        *("-o", "jsonpath={.items[*].spec.nodeName}"),
    ).split()
    assert ("Name:" in lost) == (control_plane in hosts)
    if worker in hosts:
        server = f"{addresses[worker]}:{LOCAL_DNS_PORT}"
        assert "Name:" in execute(cluster, f"on-{control_plane}", *LOOKUP, server)

    def pods(service: str) -> set[str]:
        answers = [who("client", f"{service}.default:8080") for _ in range(20)]
        print(service, answers)
        return {pod for pod, _, _ in (answer.partition(" ") for answer in answers)} - {""}

    # Each node's proxy learns of the pods, and of the rules, in a moment of its own.
    until(lambda: len(pods("spread")) == 2, "answers of both pods", 60)
    until(lambda: len(pods("sticky")) == 1, "answers of one pod alone", 60)
    cluster.kubectl("delete", "pods,services", "-l", "app=who", "--now")
    cluster.kubectl("-n", "kube-system", "delete", "service", "local-dns")


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
    assert "10 passed" in checks


def test_adding_a_worker_touches_no_other_machine(cluster: Cluster) -> None:
    before = {s["Name"]: s["ID"] for s in openstack("server", "list")}
    changes = cluster.up(workerCount=2)
    after = {s["Name"]: s["ID"] for s in openstack("server", "list")}
    assert cluster.nodes()["small-worker-1"]
    assert before.items() <= after.items()
    assert set(changes) == {"create"}


def test_a_worker_that_leaves_is_drained_first(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=KURED)
    cluster.up(workerCount=1)
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}
    daemon_set = json.loads(
        cluster.kubectl("-n", "kured", "get", "daemonset", "kured", "-o", "json")
    )
    lock = json.loads(daemon_set["metadata"]["annotations"]["weave.works/kured-node-lock"])
    assert lock["nodeID"] == "openstack-kubernetes"
    cluster.kubectl("delete", "namespace", "kured")


class Cordons:
    """The most workers that were cordoned at the same time, while this is open."""

    def __init__(self, cluster: Cluster) -> None:
        self.most = 0
        self._cluster = cluster
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        listing = ("get", "nodes", "--field-selector=spec.unschedulable=true", "-o", "name")
        while not self._ended.wait(0.2):
            cordoned = self._cluster.kubectl(*listing, check=False).split()
            self.most = max(self.most, len(cordoned))


def test_workers_that_the_last_update_created_leave_one_at_a_time(cluster: Cluster) -> None:
    cluster.up(workerCount=3)
    with Cordons(cluster) as cordons:
        cluster.up(workerCount=1)
    assert cordons.most == 1
    assert cluster.nodes() == {"small-control-plane-0": True, "small-worker-0": True}


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

    extra = {**settings.KUBELET, "systemReserved": {"memory": "300Mi"}}
    cluster.up(
        kubelet={"extraConfig": extra},
        apiServer={"extraArgs": {"event-ttl": "4h"}},
        timeouts={"drain": "20m"},
    )
    now = mebibytes(cluster, worker, "capacity") - mebibytes(cluster, worker, "allocatable")
    assert now == kept + 44
    assert cluster.kubectl("get", "pod", "stays", "-o", path) == before
    manifest = "sudo cat /etc/kubernetes/manifests/kube-apiserver.yaml"
    assert "--event-ttl=4h" in cluster.ssh("small-control-plane-0", manifest)
    assert cluster.up() == {}
    cluster.kubectl("delete", "pod", "stays", "--now")
    cluster.up(kubelet={"extraConfig": settings.KUBELET}, apiServer=None, timeouts=None)


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


def test_no_node_reboots_while_a_control_plane_is_not_ready(cluster: Cluster) -> None:
    control_plane, worker = "small-control-plane-0", "small-worker-0"
    addresses = {each["name"]: each["address"] for each in cluster.stack.outputs()["nodes"]}
    values = kured.values(
        Kured(enabled=True), control_planes=[addresses[control_plane]], prometheus_url=None
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


class Partition:
    """A worker that its security groups isolate, until its server no longer runs."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.moved_while_running = False
        self.pod = uid(cluster)
        self._cluster = cluster
        self._port = name
        self._server = openstack("server", "show", name)["id"]
        self._groups = openstack("port", "show", name)["security_group_ids"]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        run("openstack", "port", "set", "--no-security-group", self._port)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.is_set():
            # The pod first: what moves between the two questions moved after the server ran.
            moved = uid(self._cluster) not in ("", self.pod) or not self._is_attached()
            if self._status() not in ("ACTIVE", ""):
                break
            self.moved_while_running |= moved
        # The next server of this name has the same port.
        groups = [f"--security-group={group}" for group in self._groups]
        run("openstack", "port", "set", *groups, self._port)

    def _is_attached(self) -> bool:
        listed = self._cluster.kubectl("get", "volumeattachments", "-o", "json", check=False)
        nodes = [
            each["spec"]["nodeName"] for each in json.loads(listed or '{"items": []}')["items"]
        ]
        return not listed or self._port in nodes

    def _status(self) -> str:
        """The state of the first server; `gone` without it, empty without an answer."""
        listed = json.loads(run("openstack", "server", "list", "-f", "json", check=False) or "null")
        if listed is None:
            return ""
        return next((each["Status"] for each in listed if each["ID"] == self._server), "gone")


def uid(cluster: Cluster) -> str:
    """The pod that counts; empty without one."""
    path = "jsonpath={.metadata.uid}"
    return cluster.kubectl("get", "pod", "counter-0", "-o", path, check=False).strip()


def test_a_worker_that_is_cut_off_is_stopped_before_its_pod_moves(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=COUNTER)
    until(lambda: "counter-0" in cluster.kubectl("get", "pods"), "the pod", 30)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/counter-0", "--timeout=180s")
    with Partition(cluster, "small-worker-0") as partition:
        until(lambda: not cluster.nodes()["small-worker-0"], "a node that is cut off", 120)
        cluster.up("--replace", "**:Instance::small-worker-0")
    assert not partition.moved_while_running
    assert all(cluster.nodes().values())
    cluster.kubectl("wait", "--for=condition=Ready", "pod/counter-0", "--timeout=180s")
    after = uid(cluster)
    assert after != partition.pod
    until(lambda: after in execute(cluster, "counter-0", "cat", "/data/log"), "its first line", 30)
    lines = [
        each.split() for each in execute(cluster, "counter-0", "cat", "/data/log").splitlines()
    ]
    writers = [writer for writer, _ in itertools.groupby(writer for writer, _ in lines)]
    assert writers == [partition.pod, after]
    times = [int(time) for _, time in lines]
    assert times == sorted(times)
    assert cluster.up() == {}
    cluster.kubectl("delete", "statefulset/counter", "pvc/data-counter-0", "--timeout=180s")
    until(lambda: len(openstack("volume", "list")) == 1, "the volume's end", 120)


def test_the_kubeconfig_works_through_the_floating_ip(cluster: Cluster) -> None:
    assert cluster.endpoint in cluster.kubectl("cluster-info")
    assert run("curl", "-sk", f"{cluster.endpoint}/readyz") == "ok"


def test_without_a_login_the_api_says_only_how_it_is(cluster: Cluster) -> None:
    endpoint = cluster.endpoint
    for path in ("version", "api", "readyz/etcd"):
        status = run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", f"{endpoint}/{path}")
        assert status == "401", path


def test_a_pod_in_the_nodes_network_is_refused_in_a_namespace_that_does_not_allow_it(
    cluster: Cluster,
) -> None:
    pod = SLEEPER.format(name="bold", app="bold", node="small-worker-0", host_network="true")
    cluster.kubectl("create", "namespace", "plain")
    try:
        with pytest.raises(AssertionError, match="violates PodSecurity"):
            cluster.kubectl("--namespace=plain", "apply", "-f", "-", stdin=pod)
    finally:
        cluster.kubectl("delete", "namespace", "plain")


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


def test_a_leaked_kubeconfig_is_refused_after_a_rotation(cluster: Cluster) -> None:
    leaked, made = copied(cluster, "leaked"), cluster.stack.folder / "made"
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


def login_of_the_cluster(cluster: Cluster) -> Path:
    """A clouds.yaml with the cluster's own credential, as root on a control plane has it."""
    name = "openstack-cloud-controller-manager"
    config = cluster.ssh(
        "small-control-plane-0", f"sudo cat /etc/kubernetes/cloud/{name}/cloud.conf"
    )
    known = dict(re.findall(r'^([a-z-]+) = "(.*)"$', config, re.MULTILINE))
    entry = {
        "auth_type": "v3applicationcredential",
        "auth": {
            "auth_url": known["auth-url"],
            "application_credential_id": known["application-credential-id"],
            "application_credential_secret": known["application-credential-secret"],
        },
        "region_name": known["region"],
    }
    login = cluster.stack.folder / "credential.yaml"
    login.touch(mode=0o600)
    login.write_text(yaml.safe_dump({"clouds": {"cluster": entry}}))
    return login


def every_secret(cluster: Cluster) -> str:
    """The contents of all Secrets, as an ingress controller may read them."""
    secrets = json.loads(cluster.kubectl("get", "secrets", "-A", "-o", "json"))["items"]
    values = [value for each in secrets for value in each.get("data", {}).values()]
    assert values
    return "\n".join(base64.b64decode(value).decode(errors="replace") for value in values)


def test_a_credential_with_access_rules_serves_volumes_and_deletes_no_server(
    cluster: Cluster,
) -> None:
    volumes = len(openstack("volume", "list"))
    cluster.up(cloudCredential={"accessRules": True})
    login = login_of_the_cluster(cluster)
    [made] = yaml.safe_load(login.read_text())["clouds"].values()
    assert made["auth"]["application_credential_secret"] not in every_secret(cluster)
    claim = re.sub(r"\bdata\b", "ruled", CLAIM).replace("writer", "ruler")
    cluster.kubectl("apply", "-f", "-", stdin=claim)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/ruler", "--timeout=180s")

    issue = ("openstack", "token", "issue", "-c", "id", "-f", "value")
    token = run(*issue, OS_CLOUD="cluster", OS_CLIENT_CONFIG_FILE=str(login)).strip()

    def status(method: str, server: str) -> str:
        """The status of Nova's answer to a request with the cluster's credential."""
        asked = ("-X", method, f"{layout.NOVA}/v2.1/servers/{server}")
        header = f'header = "X-Auth-Token: {token}"'
        return run("curl", "-sK-", "-o", "/dev/null", "-w", "%{http_code}", *asked, stdin=header)

    servers = {server["ID"] for server in openstack("server", "list")}
    for each in servers:
        assert (status("GET", each), status("DELETE", each)) == ("200", "401")
    assert {server["ID"] for server in openstack("server", "list")} == servers
    cluster.kubectl("delete", "pod/ruler", "pvc/ruled")
    until(lambda: len(openstack("volume", "list")) == volumes, "the volume's end", 120)


def test_a_rotated_credential_leaves_no_old_one(cluster: Cluster) -> None:
    [old] = openstack("application", "credential", "list")
    cluster.up(rotation={"kubeconfig": 2, "cloudCredential": 2})
    [new] = openstack("application", "credential", "list")
    assert new["ID"] != old["ID"]
    assert cluster.pods_not_ready() == []
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
    # Another cluster of the same name has another ID.
    mark = f"{CSI_MARK}=small-00000000"
    run("openstack", "volume", "create", "--size=1", f"--property={mark}", "theirs")
    cluster.up(keepVolumes=True)
    cluster.destroy()
    left = {each["Name"]: each["ID"] for each in openstack("volume", "list")}
    assert left == {name: volume, "theirs": left["theirs"]}
    run("openstack", "volume", "delete", *left.values())
    until(lambda: left_in_project() == {}, "an empty project", 60)
