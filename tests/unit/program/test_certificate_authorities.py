"""Another generation of the certificate authorities, in each of its three updates."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from config.errors import ConfigError
from tests.unit.engine import COMMAND, NODES, SETTLED, Run, command, files, identity, node_env, run

ROTATION = {"rotation": {"certificateAuthorities": 2}}
SCRIPT = "demo-certificate-authorities"
OLD, NEW = "demo-cluster-ca certificate\n", "demo-cluster-ca-2 certificate\n"


def said(phase: str, generation: int = 2) -> Mapping[str, Any]:
    return {"generation": generation, "phase": phase}


@pytest.fixture(scope="module")
def updates() -> list[Run]:
    """The three updates, and one after them."""
    phases = (SETTLED, said("issue"), said("use"), said("done"))
    return [run(ROTATION, existing=NODES, authorities=phase) for phase in phases]


def trusted(kubeconfig: str) -> str:
    [cluster] = yaml.safe_load(kubeconfig)["clusters"]
    return base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()


def issuer(of: Run, name: str) -> str:
    authority: str = of.one("LocallySignedCert", name).inputs["caCertPem"]
    return authority


def test_the_stack_says_what_has_been_reached(updates: list[Run]) -> None:
    reached = [each.outputs["certificateAuthorities"] for each in updates]
    assert reached == [said("issue"), said("use"), said("done"), said("done")]


def test_the_output_waits_for_the_machines(updates: list[Run]) -> None:
    for each in updates:
        script = command(each, SCRIPT)
        for name in NODES:
            assert each.waits_for(script, command(each, f"{name}-join"))
        assert each.waits_for(each.one("Stash", "demo-deletion-protection"), script)


def test_machines_do_one_thing_in_the_first_two_updates_and_another_one_then(
    updates: list[Run],
) -> None:
    phases = [node_env(command(each, SCRIPT))["PHASE"] for each in updates]
    assert phases == ["issue", "issue", "forget", "forget"]
    assert files(command(updates[0], SCRIPT))["authority.crt"] == NEW
    # No private key passes a gateway.
    assert not any("privateKey Pem" in text for text in files(command(updates[0], SCRIPT)).values())


def test_every_file_and_kubeconfig_trusts_what_may_be_met(updates: list[Run]) -> None:
    expected = [OLD + NEW, NEW + OLD, NEW, NEW]
    for update, bundle in zip(updates, expected, strict=True):
        for each in update.all(COMMAND).values():
            sent = files(each) if each.inputs.get("stdin") else {}
            for name in {"ca.crt", "pki/ca.crt"} & sent.keys():
                assert sent[name] == bundle, each.name
            if "kubeconfig" in sent:
                assert trusted(sent["kubeconfig"]) == bundle, each.name
        assert trusted(update.outputs["kubeconfig"]) == bundle


def test_identities_are_of_the_new_authority_from_the_second_update_on(updates: list[Run]) -> None:
    for update, authority in zip(updates, [OLD, NEW, NEW, NEW], strict=True):
        for name in ("demo-admin", "demo-administrator"):
            assert issuer(update, name) == authority
        assert identity(update.outputs["kubeconfig"])[0] == "demo-administrator certificate"


def test_a_control_plane_that_joins_issues_as_the_others_do(updates: list[Run]) -> None:
    ends = ["", "-2", "-2", "-2"]
    for update, end in zip(updates, ends, strict=True):
        sent = files(command(update, "demo-control-plane-0-configure"))
        for name, role in {
            "ca": "cluster-ca",
            "front-proxy-ca": "front-proxy-ca",
            "etcd/ca": "etcd-ca",
        }.items():
            assert sent[f"pki/{name}.key"] == f"demo-{role}{end} privateKey Pem\n"
            assert sent[f"pki/{name}.crt"].startswith(f"demo-{role}{end} certificate\n")
            assert sent[f"pki/next/{name}.key"] == f"demo-{role}-2 privateKey Pem\n"
        assert sent["pki/next/cross-signed.crt"] == NEW  # as the mocks name it
        assert "cluster-signing-cert-file" in sent["kubeadm-init.yaml"]


def test_the_old_authority_signs_the_key_of_the_new_one(updates: list[Run]) -> None:
    for update in updates:
        cross = update.one("LocallySignedCert", "demo-cluster-ca-2")
        assert (cross.inputs["caCertPem"], cross.inputs["isCaCertificate"]) == (OLD, True)
        request = update.one("CertRequest", "demo-cluster-ca-2").inputs
        own = update.one("SelfSignedCert", "demo-cluster-ca-2").inputs
        assert request["subject"] == own["subject"] == {"commonName": "kubernetes-2"}
        assert request["privateKeyPem"] == own["privateKeyPem"]


def test_who_trusts_the_first_authority_only_can_follow_every_rotation() -> None:
    again = run(
        {"rotation": {"certificateAuthorities": 3}}, existing=NODES, authorities=said("done")
    )
    signed_by = {f"demo-cluster-ca-{number}" for number in (2, 3)}
    assert {issuer(again, name) for name in signed_by} == {OLD, NEW}
    sent = files(command(again, "demo-control-plane-0-configure"))
    assert sent["pki/next/cross-signed.crt"] == f"demo-cluster-ca-3 certificate\n{NEW}"


def test_the_cluster_keeps_its_id(updates: list[Run], fresh: Run) -> None:
    assert len({each.outputs["clusterId"] for each in updates}) == 1
    assert updates[0].outputs["clusterId"] == fresh.outputs["clusterId"]


def test_a_cluster_without_a_rotation_has_one_generation_and_no_script(fresh: Run) -> None:
    assert fresh.outputs["certificateAuthorities"] == said("done", 1)
    assert SCRIPT not in fresh.all(COMMAND)
    assert not any(name.endswith("-ca-2") for name in fresh.all("SelfSignedCert"))
    sent = files(command(fresh, "demo-control-plane-0-configure"))
    assert not any(name.startswith("pki/next/") for name in sent)
    assert "cluster-signing-cert-file" not in sent["kubeadm-init.yaml"]


def test_a_new_cluster_begins_with_any_generation() -> None:
    fresh = run(ROTATION)
    assert fresh.outputs["certificateAuthorities"] == said("done")
    assert trusted(fresh.outputs["kubeconfig"]) == NEW


@pytest.mark.parametrize(
    ("number", "last", "problem"),
    [
        (3, SETTLED, "the cluster has 1: set it to 2 first"),
        (3, said("issue"), "the rotation to 2 is not done: set it to 2, run pulumi up"),
        (1, said("use"), "it must never go back; set it to 2 or more"),
        (1, said("done"), "it must never go back; set it to 2 or more"),
    ],
)
def test_a_number_that_does_not_follow_is_refused(
    number: int, last: Mapping[str, Any], problem: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"rotation\.certificateAuthorities = {number}: {problem}"
    ):
        run({"rotation": {"certificateAuthorities": number}}, existing=NODES, authorities=last)
