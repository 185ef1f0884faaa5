"""Traffic of pods: the cloud's metadata service, node ports, host ports, and kinds of Services."""

from __future__ import annotations

import functools
import itertools

from lab.cluster import Cluster
from lab.until import until
from tests.lab.small_cluster.pods import execute, metadata, start_sleeper

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


def test_the_metadata_service_answers_nodes_but_no_pods(cluster: Cluster) -> None:
    for name, host_network in (("in-nodes", "true"), ("in-pods", "false")):
        start_sleeper(cluster, name, "network", "small-worker-0", host_network)
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=network", "--timeout=120s")
    assert "small-worker-0" in metadata(cluster, "in-nodes")
    assert metadata(cluster, "in-pods") == ""


def test_node_ports_answer_every_node_and_a_host_port_its_own(cluster: Cluster) -> None:
    addresses = cluster.addresses()
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
    addresses = cluster.addresses()
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
