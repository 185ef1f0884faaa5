"""The kubeconfigs of the user and of the program."""

from __future__ import annotations

from tests.unit.engine import COMMAND, NODES, Run, files, identity, run

PROVIDER = "providers:kubernetes"
BINDING = "rbac.authorization.k8s.io/v1:ClusterRoleBinding"


def test_the_users_kubeconfig_is_not_the_identity_of_the_program(fresh: Run) -> None:
    own = ("demo-admin certificate", "demo-admin privateKey Pem")
    commands = [each for each in fresh.all(COMMAND).values() if each.inputs.get("stdin")]
    held = [files(each)["kubeconfig"] for each in commands if "kubeconfig" in files(each)]
    # Control planes, what lets nodes join and leave, and the wait for the API.
    assert len(held) == 3 + 2 * len(NODES) + 1
    provider = fresh.one(PROVIDER, "demo-addons")
    assert {identity(each) for each in (*held, provider.inputs["kubeconfig"])} == {own}
    users = ("demo-administrator certificate", "demo-administrator privateKey Pem")
    assert identity(fresh.outputs["kubeconfig"]) == users

    program, user = (
        fresh.one("CertRequest", f"demo-{role}") for role in ("admin", "administrator")
    )
    assert program.inputs["subject"] == {
        "commonName": "openstack-kubernetes",
        "organization": "kubeadm:cluster-admins",
    }
    assert user.inputs["subject"] == {
        "commonName": "administrator",
        "organization": "openstack-kubernetes:administrators-1",
    }
    # Renewed or rotated, the user's certificate changes nothing else; only a destroy begins with
    # what waits for everything.
    for urn, each in fresh.resources.items():
        assert urn.endswith("::demo-deletion-protection") or not fresh.waits_for(
            each, fresh.one("LocallySignedCert", "demo-administrator")
        )


def test_a_drain_years_later_has_a_certificate_that_is_valid(fresh: Run) -> None:
    program = fresh.one("LocallySignedCert", "demo-admin").inputs
    authority = fresh.one("SelfSignedCert", "demo-cluster-ca").inputs
    assert program["validityPeriodHours"] == authority["validityPeriodHours"]


def test_another_generation_of_the_kubeconfig_changes_only_the_administrator(fresh: Run) -> None:
    rotated = run({"rotation": {"kubeconfig": 2}})
    assert rotated.resources.keys() == fresh.resources.keys()
    changed = {
        urn: each
        for urn, each in rotated.resources.items()
        for before in [fresh.resources[urn]]
        if (each.compared, each.replacement_trigger)
        != (before.compared, before.replacement_trigger)
    }
    # The certificate follows from its request.
    key = rotated.one("PrivateKey", "demo-administrator")
    request = rotated.one("CertRequest", "demo-administrator")
    binding = rotated.one(BINDING, "demo-addons-administrators")
    assert changed.keys() == {key.urn, request.urn, binding.urn}
    group = "openstack-kubernetes:administrators-2"
    assert key.replacement_trigger == group
    assert request.inputs["subject"]["organization"] == group
    assert [subject["name"] for subject in binding.inputs["subjects"]] == [group]
    assert binding.inputs["roleRef"]["name"] == "cluster-admin"
