"""Access to the API: by the kubeconfig, without a login, for a few hours, and for pods."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from cryptography import x509

from lab.cluster import Cluster, run
from tests.lab.kubeconfigs import may_do_everything
from tests.lab.small_cluster.pods import SLEEPER


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
