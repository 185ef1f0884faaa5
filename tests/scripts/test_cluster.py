"""Shared files of cluster/: tokens, the discovery file, etcd on other control planes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.scripts.conftest import Machine, Result

FILES = ("kubectl", "tokens", "etcdctl", "etcd-members")


def cluster(machine: Machine, commands: str) -> Result:
    """Run commands with the settings and the files of cluster/ loaded."""
    files = " ".join(f"./cluster/{name}.sh" for name in FILES)
    return machine.lib(f"load_env\nfor file in {files}; do source $file; done\n{commands}")


def test_a_token_expires_is_secret_and_is_deleted(machine: Machine) -> None:
    machine.write("kubeconfig", "")
    result = cluster(machine, 'mint_token\necho "$token"')
    token_id, secret = result.stdout.strip().split(".")
    assert (len(token_id), len(secret)) == (6, 16)
    assert not machine.called(secret)
    manifest = next(e["stdin"] for e in machine.recorded if " create -f -" in e["line"])
    assert yaml.safe_load(manifest)["stringData"]["token-secret"] == secret
    assert "expiration: 20" in manifest
    # As the API server knows it.
    assert 'usage-bootstrap-authentication: "true"' in manifest
    assert machine.calls[-1].endswith(
        f"delete secret bootstrap-token-{token_id} --ignore-not-found"
    )


def test_the_group_of_tokens_is_not_kubeadms_and_has_its_rights_before_one_exists(
    machine: Machine,
) -> None:
    machine.write("kubeconfig", "")
    cluster(machine, "mint_token")
    machine.order("apply --server-side", "create -f -")
    [applied] = machine.called("apply --server-side")
    rights = Path(applied.rsplit("-f ", 1)[1])
    groups = {
        subject["name"]
        for rule in yaml.safe_load_all(rights.read_text())
        for subject in rule.get("subjects", ())
    }
    manifest = next(e["stdin"] for e in machine.recorded if " create -f -" in e["line"])
    assert groups == {yaml.safe_load(manifest)["stringData"]["auth-extra-groups"]}
    # kubeadm has a controller approve all that this one asks for.
    assert not groups & {"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"}


@pytest.mark.parametrize("drawn", ["700000", "12e456"])
def test_a_token_that_looks_like_a_number_is_text(machine: Machine, drawn: str) -> None:
    machine.write("kubeconfig", "")
    machine.answer("config view --raw", "Q0E=")
    cluster(machine, f"random_text() {{ printf {drawn}; }}\nmint_token")
    manifest = next(e["stdin"] for e in machine.recorded if " create -f -" in e["line"])
    sent = yaml.safe_load(manifest)["stringData"]
    assert (sent["token-id"], sent["token-secret"]) == (drawn, drawn)
    discovery = yaml.safe_load(cluster(machine, "token=700000.7\ndiscovery").stdout)
    assert discovery["users"][0]["user"]["token"] == "700000.7"


def test_the_discovery_file_trusts_the_ca_of_the_admin_kubeconfig(machine: Machine) -> None:
    machine.answer("config view --raw", "Q0E=")
    result = cluster(machine, "token=abc.def\ndiscovery")
    assert "certificate-authority-data: Q0E=" in result.stdout
    assert "server: https://api.demo.internal:7443" in result.stdout
    assert 'token: "abc.def"' in result.stdout


def test_a_dead_etcd_is_followed_by_the_next_and_the_own_one_is_never_asked(
    machine: Machine,
) -> None:
    machine.answer(
        "get pods -l component=etcd",
        "etcd-a a True\netcd-own demo-node True\netcd-b b False\netcd-c c True\n",
    )
    machine.answer("exec etcd-a", status=1)
    machine.answer("exec etcd-c", "from c\n")
    result = cluster(machine, "etcdctl_elsewhere member list")
    assert result.stdout == "from c\n"
    assert [line.split(" exec ")[1].split()[0] for line in machine.called(" exec ")] == [
        "etcd-a", "etcd-c",
    ]  # fmt: skip


def test_etcd_members_of_this_machine_are_found_by_name_and_by_address(machine: Machine) -> None:
    machine.answer("get pods -l component=etcd", "etcd-a a True\n")
    machine.answer(
        "member list",
        "11, started, a, https://10.8.0.21:2380, https://10.8.0.21:2379, false\n"
        "22, unstarted, , https://10.8.0.99:2380, , true\n"
        "33, started, demo-node, https://10.8.0.77:2380, https://10.8.0.77:2379, false\n"
        "44, started, demo-node-2, https://10.8.0.9:2380, https://10.8.0.9:2379, false\n",
    )
    assert cluster(machine, "remove_etcd_member").status == 0
    assert [line.rsplit(" ", 1)[1] for line in machine.called("member remove")] == ["22", "33"]
