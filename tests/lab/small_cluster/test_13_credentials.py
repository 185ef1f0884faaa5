"""Credentials that leak: refused after a rotation, and of little use before it."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import yaml

from commands.private_file import write_private
from lab.cloud import layout
from lab.cluster import Cluster, openstack, run
from lab.until import until
from tests.lab.kubeconfigs import copied, may_do_everything
from tests.lab.small_cluster.pods import CLAIM


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
    write_private(login, yaml.safe_dump({"clouds": {"cluster": entry}}))
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
