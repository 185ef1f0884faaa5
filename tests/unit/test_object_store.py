"""The object store for other clusters: who has which bucket, and how it is reached and kept."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from config import ports
from config.errors import ConfigError
from config.load import load
from config.models.backup import Bucket
from tests.unit.addons.install import AddonsRun, install
from tests.unit.engine import MINIMAL, Run, run
from tests.unit.test_security_groups import lets_in, made

STORE = "demo-addons-object-store"
PROTECTED = ("v1:PersistentVolumeClaim", "v1:Namespace")


def stored(**settings: Any) -> AddonsRun:
    return install({"objectStore": {"enabled": True, "clusters": ["a", "b"], **settings}})


@pytest.fixture(scope="module")
def store() -> AddonsRun:
    return stored()


@pytest.fixture(scope="module")
def exported() -> Run:
    addons = {**MINIMAL["addons"], "objectStore": {"enabled": True, "clusters": ["a", "b"]}}
    return run({"addons": addons})


def pod(made: AddonsRun) -> dict[str, Any]:
    spec: dict[str, Any] = made.one("v1:Deployment", STORE).inputs["spec"]["template"]["spec"]
    return spec


def users(made: AddonsRun) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.file(f"{STORE}-users", "users.json"))
    return dict(found["accessAccounts"])


def test_there_is_none_unless_it_is_asked_for(fresh: Run) -> None:
    assert not [name for name in install().made() if "object-store" in name]
    assert "objectStore" not in fresh.outputs


def test_each_cluster_and_pulumi_have_a_user_who_can_make_no_buckets(store: AddonsRun) -> None:
    known = users(store)
    assert set(known) == {"pulumi-state", "etcd-a", "etcd-b"}
    assert {each["role"] for each in known.values()} == {"user"}
    assert len({each["secret"] for each in known.values()}) == 3
    (first,) = pod(store)["initContainers"]
    assert first["command"][-3:] == ["pulumi-state", "etcd-a", "etcd-b"]


def test_a_new_cluster_changes_no_key_and_restarts_the_store(store: AddonsRun) -> None:
    more = stored(clusters=["a", "b", "c"])
    before = users(store)
    assert {user: users(more)[user] for user in before} == before

    def mark(made: AddonsRun) -> Any:  # noqa: ANN401
        template = made.one("v1:Deployment", STORE).inputs["spec"]["template"]
        return template["metadata"]["annotations"]

    assert mark(store) != mark(more)
    assert mark(store) == mark(stored())


def test_keys_are_secret_and_on_no_command_line(store: AddonsRun) -> None:
    for part in ("root", "users", "certificate"):
        assert (f"{STORE}-{part}", "data") in store.secret_inputs
    secrets = [each["secret"] for each in users(store).values()]
    text = json.dumps(pod(store))
    assert not [each for each in secrets if each in text]


def test_the_pod_has_no_rights_and_the_volume_on_one_node_at_a_time(store: AddonsRun) -> None:
    namespace = store.one("v1:Namespace", STORE).inputs["metadata"]
    assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert pod(store)["automountServiceAccountToken"] is False
    for each in (*pod(store)["initContainers"], *pod(store)["containers"]):
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
        assert each["image"].startswith("ghcr.io/versity/versitygw:v")
    deployment = store.one("v1:Deployment", STORE).inputs["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    policy = store.one("v1:NetworkPolicy", STORE).inputs["spec"]
    assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]


def test_the_gateways_reach_the_pod_through_its_node_port(store: AddonsRun) -> None:
    policy = store.one("v2:CiliumNetworkPolicy", f"{STORE}-nodes").inputs["spec"]
    [outside] = [rule for rule in policy["ingress"] if rule["fromEntities"] == ["world"]]
    assert outside["toPorts"] == [{"ports": [{"port": "7070", "protocol": "TCP"}]}]


def test_users_cannot_be_changed_through_the_gateways(store: AddonsRun) -> None:
    for kind, port in (("containers", ":7070"), ("initContainers", "127.0.0.1:7070")):
        server = pod(store)[kind][0]
        environment = {each["name"]: each.get("value") for each in server["env"]}
        assert environment["VGW_PORT"] == port
        assert environment["VGW_ADMIN_PORT"] == "127.0.0.1:7071"
        # Its cache takes one user for another.
        assert environment["VGW_IAM_CACHE_DISABLE"] == "true"


def test_the_certificate_is_for_the_addresses_of_the_gateways(store: AddonsRun) -> None:
    request = store.one("CertRequest", STORE).inputs
    assert request["ipAddresses"] == ["203.0.113.7", "10.8.0.10"]


def test_the_certificate_is_also_for_the_name_in_designate() -> None:
    addons = {**MINIMAL["addons"], "objectStore": {"enabled": True}}
    named = run({"addons": addons, "dns": {"zone": "example.org."}})
    assert named.one("CertRequest", STORE).inputs["dnsNames"] == ["demo.example.org"]


@pytest.mark.parametrize("protection", [True, False])
def test_the_volume_is_protected_as_the_cluster_is(protection: bool) -> None:
    addons = {**MINIMAL["addons"], "objectStore": {"enabled": True}}
    made = run({"addons": addons, "deletionProtection": protection})
    assert [made.one(kind, STORE).protect for kind in PROTECTED] == [protection] * 2


def test_the_output_is_what_other_clusters_need(exported: Run) -> None:
    told = exported.outputs["objectStore"]
    assert set(told["clusters"]) == {"a", "b"}
    bucket = Bucket(
        **{
            **told["clusters"]["a"]["bucket"],
            # The mocks' own is no PEM.
            "caCertificate": None,
        }
    )
    assert (bucket.endpoint, bucket.name) == ("https://198.51.100.7:7070", "etcd-a")
    assert bucket.access_key == "etcd-a"
    assert told["clusters"]["a"]["bucket"]["caCertificate"] == f"{STORE}-ca certificate\n"
    keys = [told["pulumi"]["secretKey"], *(each["secretKey"] for each in told["clusters"].values())]
    assert len(set(keys)) == 3


def test_pulumi_logs_in_with_the_url_of_the_output(exported: Run) -> None:
    url = urlsplit(exported.outputs["objectStore"]["pulumi"]["url"])
    assert (url.scheme, url.netloc) == ("s3", "pulumi-state")
    assert parse_qs(url.query) == {
        "endpoint": ["https://198.51.100.7:7070"],
        "region": ["us-east-1"],
        "s3ForcePathStyle": ["true"],
    }


@pytest.mark.parametrize(
    ("settings", "sources"),
    [
        ({}, {"203.0.113.0/24"}),
        ({"cidrs": "198.51.100.0/24, 192.0.2.0/24"}, {"198.51.100.0/24", "192.0.2.0/24"}),
    ],
)
def test_only_the_allowed_networks_reach_the_gateways_port(
    settings: dict[str, str], sources: set[str]
) -> None:
    rules = made(addons={"objectStore": {"enabled": True, **settings}})
    found = {rule.source for rule in rules if lets_in(rule, "tcp", ports.OBJECT_STORE)}
    assert found == sources
    node_port = ports.OBJECT_STORE_NODE_PORT
    behind = {rule.source for rule in rules if lets_in(rule, "tcp", node_port)}
    assert behind == {"gateway", "node"}


def test_without_a_store_no_port_is_open() -> None:
    assert not [rule for rule in made() if rule.first == ports.OBJECT_STORE]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"clusters": ["a", "a"]}, "clusters names 'a' twice"),
        ({"clusters": ["Shop"]}, "must be a DNS label"),
        # Its bucket would have more than 63.
        ({"clusters": ["c" * 59]}, "at most 58 characters"),
        ({"cidrs": ["203.0.113.1/24"]}, "the network is 203.0.113.0/24"),
        # As the cluster itself.
        ({"clusters": ["a", "demo"]}, r"clusters\[1\] = demo: is this cluster"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load({**MINIMAL, "addons": {"objectStore": {"enabled": True, **settings}}}, "demo")
