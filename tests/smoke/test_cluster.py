"""Basic functions of every cluster: nodes, DNS, Services, policies, volumes and metrics."""

from __future__ import annotations

import pytest

from lab.until import until
from tests.smoke.live import PATIENCE, Live, claim, mounting, pod, service

DENY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "deny"},
    "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]},
}
FETCH = ("exec", "client", "--", "wget", "-q", "-T", "5", "-O", "-", "http://web/hostname")


@pytest.fixture(scope="module")
def web(live: Live) -> Live:
    """A cluster with a web server behind a Service, and a client."""
    live.apply(
        pod("web", "httpd", "-f", "-p", "8080", "-h", "/etc"),
        service("web", 8080),
        pod("client", "sleep", "3600"),
    )
    live.wait("pod/web")
    live.wait("pod/client")
    return live


def test_every_node_is_ready(live: Live) -> None:
    nodes = live.get("nodes")
    assert nodes
    for node in nodes:
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        assert conditions["Ready"] == "True", node["metadata"]["name"]


def test_dns_resolves_names(web: Live) -> None:
    name = "kubernetes.default.svc.cluster.local"
    until(lambda: web.kubectl("exec", "client", "--", "nslookup", name), "DNS", 30)


def test_a_service_reaches_its_pod(web: Live) -> None:
    until(lambda: web.kubectl(*FETCH).strip() == "web", "the Service", 30)


def test_a_network_policy_blocks_traffic(web: Live) -> None:
    web.apply(DENY)
    try:
        until(lambda: web.kubectl(*FETCH, check=False) == "", "the policy", 30)
    finally:
        web.kubectl("delete", "networkpolicy", "deny")
    until(lambda: web.kubectl(*FETCH).strip() == "web", "the Service without the policy", 30)


def test_a_volume_outlives_its_pod(live: Live) -> None:
    if live.default_storage_class() is None:
        pytest.skip("no StorageClass is the default one")
    live.apply(
        claim("kept"), mounting("writer", "kept", "sh", "-c", "echo kept >/data/file; sleep 3600")
    )
    live.wait("pod/writer")
    live.kubectl("delete", "pod", "writer")
    live.apply(mounting("reader", "kept", "sleep", "3600"))
    live.wait("pod/reader")
    assert live.kubectl("exec", "reader", "--", "cat", "/data/file").strip() == "kept"
    live.kubectl("delete", "pod/reader", "pvc/kept")


def test_kubectl_top_has_metrics(live: Live) -> None:
    if not live.get("apiservices", "--field-selector=metadata.name=v1beta1.metrics.k8s.io"):
        pytest.skip("metrics-server is not installed")
    until(lambda: live.kubectl("top", "nodes"), "metrics", PATIENCE)
