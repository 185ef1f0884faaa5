"""kubeadm's files follow the configuration."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from components import api_server_files, kubeadm
from config.load import load
from config.models.machines import Taint
from tests.unit.engine import MINIMAL

REGISTRATION = kubeadm.Registration(
    name="demo-worker-0",
    address="10.8.0.40",
    provider_id="openstack:///uuid",
    taints=[Taint(key="gpu", value="yes", effect="NoSchedule")],
    external_cloud_provider=True,
    ignore_preflight_errors=["Swap"],
)


def init_file(**settings: Any) -> str:
    """`kubeadm-init.yaml` of a cluster with these keys of the configuration."""
    cluster = load({**MINIMAL, "addons": {}, **settings}, "demo")
    return kubeadm.init_file(cluster, ["198.51.100.7"], REGISTRATION)


def documents(text: str) -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def flags(listed: list[dict[str, str]]) -> dict[str, str]:
    return {flag["name"]: flag["value"] for flag in listed}


def api_server(**changes: Any) -> dict[str, str]:
    init = documents(init_file(**changes))
    return flags(init["ClusterConfiguration"]["apiServer"]["extraArgs"])


def test_every_node_reaches_the_api_on_its_own_loopback() -> None:
    init = documents(init_file())
    assert init["ClusterConfiguration"]["controlPlaneEndpoint"] == "api.demo.internal:7443"


@pytest.mark.parametrize("name", ["1e5", "12e45", "0o17", "1-2", "y", "demo"])
def test_a_cluster_may_be_called_like_a_number(name: str) -> None:
    """Go reads more texts as numbers than Python, unless they are quoted."""
    [line] = re.findall("(?m)^clusterName: (.*)$", init_file(clusterName=name))
    assert line == (name if name in ("1-2", "demo") else f"'{name}'")
    assert yaml.safe_load(line) == name


def test_users_reach_the_api_at_the_floating_ip() -> None:
    init = documents(init_file())
    assert "198.51.100.7" in init["ClusterConfiguration"]["apiServer"]["certSANs"]


def test_the_api_server_verifies_the_kubelets_certificates() -> None:
    assert api_server()["kubelet-certificate-authority"] == "/etc/kubernetes/pki/ca.crt"


def test_a_node_registers_with_its_address_provider_id_and_taints() -> None:
    join = documents(kubeadm.join_file(REGISTRATION, control_plane=False))["JoinConfiguration"]
    node = join["nodeRegistration"]
    assert node["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert flags(node["kubeletExtraArgs"]) == {
        "node-ip": "10.8.0.40",
        "hostname-override": "demo-worker-0",
        "cloud-provider": "external",
        "provider-id": "openstack:///uuid",
    }


def test_the_cloud_controller_does_not_take_a_machine_for_a_server_that_is_gone() -> None:
    machine = replace(REGISTRATION, provider_id=None).document()
    assert flags(machine["kubeletExtraArgs"]) == {
        "node-ip": "10.8.0.40",
        "hostname-override": "demo-worker-0",
        "provider-id": "existing://demo-worker-0",
    }


def test_no_token_is_in_a_file() -> None:
    join = documents(kubeadm.join_file(REGISTRATION, control_plane=True))["JoinConfiguration"]
    assert join["discovery"] == {"file": {"kubeConfigPath": kubeadm.DISCOVERY_FILE}}


@pytest.mark.parametrize("enabled", [True, False])
def test_the_audit_log_can_be_switched(enabled: bool) -> None:
    arguments = api_server(auditLog={"enabled": enabled})
    assert ("audit-policy-file" in arguments) == enabled


def authentication(**oidc: str) -> dict[str, Any]:
    settings = {"issuerUrl": "https://sso.example.org", "clientId": "k8s", **oidc}
    cluster = load({**MINIMAL, "oidc": settings if oidc else None}, "demo")
    text = api_server_files.authentication_configuration(cluster.oidc)
    document: dict[str, Any] = documents(text)["AuthenticationConfiguration"]
    return document


def test_without_a_login_the_api_says_how_it_is_and_nothing_else() -> None:
    anonymous = authentication()["anonymous"]
    assert anonymous["enabled"] is True
    assert {each["path"] for each in anonymous["conditions"]} == {"/livez", "/readyz", "/healthz"}
    assert api_server()["authentication-config"] == "/etc/kubernetes/authentication.yaml"


def test_oidc_users_cannot_become_system_users() -> None:
    [issuer] = authentication(usernameClaim="email")["jwt"]
    assert issuer["issuer"] == {"url": "https://sso.example.org", "audiences": ["k8s"]}
    assert issuer["claimMappings"] == {
        "username": {"claim": "email", "prefix": "oidc:"},
        "groups": {"claim": "groups", "prefix": "oidc:"},
    }


@pytest.mark.parametrize(
    ("claim", "prefix", "used"),
    [("sub", "-", ""), ("sub", "", "https://sso.example.org#"), ("email", "", "")],
)
def test_prefixes_of_users_mean_what_the_api_servers_flag_means(
    claim: str, prefix: str, used: str
) -> None:
    [issuer] = authentication(usernameClaim=claim, usernamePrefix=prefix)["jwt"]
    assert issuer["claimMappings"]["username"]["prefix"] == used


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_namespaces_that_say_nothing_have_the_level_of_the_configuration(level: str) -> None:
    text = api_server_files.admission_configuration(level)
    [plugin] = documents(text)["AdmissionConfiguration"]["plugins"]
    assert plugin["name"] == "PodSecurity"
    assert plugin["configuration"]["defaults"]["enforce"] == level
    assert plugin["configuration"]["exemptions"]["namespaces"] == ["kube-system"]
    assert api_server()["admission-control-config-file"] == "/etc/kubernetes/admission.yaml"


@pytest.mark.parametrize(("monitored", "address"), [(True, "0.0.0.0"), (False, "127.0.0.1")])
def test_metrics_leave_a_node_only_for_the_monitoring(monitored: bool, address: str) -> None:
    init = documents(init_file(addons={"monitoring": {"enabled": monitored}}))
    cluster = init["ClusterConfiguration"]
    for component in ("controllerManager", "scheduler"):
        assert flags(cluster[component]["extraArgs"])["bind-address"] == address
    etcd = flags(cluster["etcd"]["local"]["extraArgs"])
    assert etcd["listen-metrics-urls"] == f"http://{address}:2381"
    assert init["KubeProxyConfiguration"]["metricsBindAddress"] == f"{address}:10249"


def test_no_component_of_the_control_plane_serves_profiles() -> None:
    cluster = documents(init_file())["ClusterConfiguration"]
    for component in ("apiServer", "controllerManager", "scheduler"):
        assert flags(cluster[component]["extraArgs"])["profiling"] == "false"


def test_extra_kubelet_settings_win_and_the_rest_stays() -> None:
    kubelet = documents(init_file(kubelet={"extraConfig": {"failSwapOn": False}}))[
        "KubeletConfiguration"
    ]
    assert kubelet["failSwapOn"] is False
    assert kubelet["rotateCertificates"] is True
    assert kubelet["serverTLSBootstrap"] is True
    assert kubelet["seccompDefault"] is True


def test_shutdown_times_by_priority_take_the_place_of_the_programs_own() -> None:
    field = "shutdownGracePeriodByPodPriority"
    own = {field: [{"priority": 0, "shutdownGracePeriodSeconds": 10}]}
    kubelet = documents(init_file(kubelet={"extraConfig": own}))["KubeletConfiguration"]
    assert {name for name in kubelet if name.startswith("shutdown")} == {field}


@pytest.mark.parametrize("component", ["apiServer", "controllerManager", "scheduler"])
def test_a_component_has_the_arguments_of_the_user_next_to_its_own(component: str) -> None:
    own = {"extraArgs": {"v": 4, "profiling": True}}
    cluster = documents(init_file(**{component: own}))["ClusterConfiguration"]
    before = flags(documents(init_file())["ClusterConfiguration"][component]["extraArgs"])
    got = flags(cluster[component]["extraArgs"])
    assert got == {**before, "v": "4", "profiling": "true"}


def memory(text: str) -> int:
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi"))


def test_a_small_node_keeps_most_of_its_memory_for_pods() -> None:
    kubelet = documents(init_file())["KubeletConfiguration"]
    kept = sum(memory(kubelet[field]["memory"]) for field in ("kubeReserved", "systemReserved"))
    kept += memory(kubelet["evictionHard"]["memory.available"])
    assert kept >= 512
    assert 1024 - kept > 1024 / 3


def test_a_threshold_of_the_user_leaves_the_others() -> None:
    own = {"evictionHard": {"memory.available": "5%"}, "systemReserved": {"memory": "1Gi"}}
    kubelet = documents(init_file(kubelet={"extraConfig": own}))["KubeletConfiguration"]
    # The kubelet would take those that are missing for zero.
    assert kubelet["evictionHard"] == {
        "memory.available": "5%",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
    }
    assert kubelet["systemReserved"] == {"cpu": "100m", "memory": "1Gi", "pid": "1000"}


@pytest.mark.parametrize("encrypt", [True, False])
def test_secrets_stay_readable_when_their_encryption_is_switched(encrypt: bool) -> None:
    [document] = documents(
        api_server_files.encryption_configuration(["a2V5"], encrypt=encrypt)
    ).values()
    providers = [list(each) for each in document["resources"][0]["providers"]]
    assert providers == (
        [["secretbox"], ["identity"]] if encrypt else [["identity"], ["secretbox"]]
    )


@pytest.mark.parametrize("encrypt", [True, False])
def test_what_older_keys_have_encrypted_stays_readable(encrypt: bool) -> None:
    text = api_server_files.encryption_configuration(["one", "two", "three"], encrypt=encrypt)
    [document] = documents(text).values()
    [resource] = document["resources"]
    assert resource["resources"] == ["secrets"]
    keys = [
        each["secretbox"]["keys"][0] if "secretbox" in each else {"name": "identity"}
        for each in resource["providers"]
    ]
    newest = {"name": "key03", "secret": "three"}
    first = [newest, {"name": "identity"}]
    older = [{"name": "key02", "secret": "two"}, {"name": "key1", "secret": "one"}]
    assert keys == [*(first if encrypt else reversed(first)), *older]
    names = api_server_files.encryption_providers(3, encrypt=encrypt)
    assert [each["name"] for each in keys[:2]] == list(names)


def test_the_beginning_of_what_a_later_key_has_encrypted_is_whole_in_base64() -> None:
    for generation in (2, 9, 10, 99):
        begin = f"k8s:enc:secretbox:v1:{api_server_files.encryption_key_name(generation)}:"
        assert len(begin) % 3 == 0, generation


def test_the_api_server_sees_a_file_that_takes_the_place_of_another() -> None:
    cluster = documents(init_file())["ClusterConfiguration"]
    folder, _, name = api_server()["encryption-provider-config"].rpartition("/")
    assert name
    [volume] = [
        each for each in cluster["apiServer"]["extraVolumes"] if each["mountPath"] == folder
    ]
    assert (volume["hostPath"], volume["pathType"]) == (folder, "Directory")
    assert api_server()["encryption-provider-config-automatic-reload"] == "true"


def test_the_audit_log_never_holds_the_body_of_a_secret() -> None:
    policy = documents(api_server_files.audit_policy(None))["Policy"]
    assert {rule["level"] for rule in policy["rules"]} == {"None", "Metadata"}
