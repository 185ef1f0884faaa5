"""The add-ons that a cluster gets, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pulumi.runtime.mocks import MockResourceArgs

from addons import cilium
from tests.unit.addons.install import (
    CCM,
    CHART,
    DAEMON_SET,
    OPTIONAL,
    AddonsRun,
    chart_names,
    install,
)
from tests.unit.engine import Cloud


class Unbound(Cloud):
    """As a preview of the first update: nothing binds the administrators yet."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        known, state = super().new_resource(args)
        return ("" if args.name == "demo-addons-administrators" else known), state


def test_what_nodes_need_to_become_ready_does_not_wait_for_them(default: AddonsRun) -> None:
    last = default.one("test:index:Membership", "demo-membership")
    waiting = {name for name, each in default.all(CHART).items() if default.waits_for(each, last)}
    assert waiting == {"demo-addons-metrics-server", "demo-addons-openstack-cinder-csi"}
    assert not default.waits_for(default.all(DAEMON_SET)[CCM], last)


def test_by_default_a_cluster_gets_only_what_it_cannot_do_without(default: AddonsRun) -> None:
    assert chart_names(default) == {"cilium", "openstack-cinder-csi", "metrics-server"}
    assert list(default.all(DAEMON_SET)) == [CCM]


def test_the_administrator_gets_a_kubeconfig_only_when_the_cluster_accepts_it(
    default: AddonsRun,
) -> None:
    binding = default.one("v1:ClusterRoleBinding", "demo-addons-administrators")
    assert binding.inputs["metadata"]["name"] == "openstack-kubernetes:administrators"
    last = default.one("test:index:Membership", "demo-membership")
    assert not default.waits_for(binding, last)
    assert default.kubeconfigs == ["administrator's kubeconfig"]
    assert install(preview=True).kubeconfigs == default.kubeconfigs
    assert install(preview=True, cloud=Unbound(())).kubeconfigs == []


def test_objects_that_a_killed_run_left_behind_are_taken_back(default: AddonsRun) -> None:
    provider = default.one("providers:kubernetes", "demo-addons").inputs
    # The engine hands a provider's settings over as text.
    assert provider["upsertExistingObjects"] == "true"
    assert provider["enablePatchForce"] == "true"


@pytest.mark.parametrize(
    ("raw", "missing"),
    [
        ({"cni": {"kind": "none"}}, "demo-addons-cilium"),
        ({"nodeDns": {"enabled": False}}, "demo-addons-node-dns"),
        ({"cinderCsi": {"enabled": False}}, "demo-addons-openstack-cinder-csi"),
        ({"metricsServer": {"enabled": False}}, "demo-addons-metrics-server"),
        ({"cloudControllerManager": {"enabled": False}}, CCM),
    ],
)
def test_each_default_addon_can_be_disabled(
    default: AddonsRun, raw: Mapping[str, Any], missing: str
) -> None:
    left = install(raw).made()
    assert missing in default.made() - left
    assert left < default.made()


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("snapshots", {"snapshot-controller"}),
        ("monitoring", {"kube-prometheus-stack"}),
        ("ingress", {"traefik"}),
        ("headlamp", {"headlamp"}),
        ("logging", {"victoria-logs-single", "fluent-bit"}),
        ("operator", {"pulumi-kubernetes-operator"}),
        ("kured", {"kured"}),
    ],
)
def test_each_optional_addon_can_be_enabled(default: AddonsRun, key: str, names: set[str]) -> None:
    assert chart_names(install({key: {"enabled": True}})) - chart_names(default) == names


def test_a_preview_registers_what_an_update_does(everything: AddonsRun) -> None:
    previewed = install({name: {"enabled": True} for name in OPTIONAL}, preview=True)
    assert previewed.made() == everything.made()


def test_everything_goes_through_one_provider(everything: AddonsRun) -> None:
    [provider] = everything.all("pulumi:providers:kubernetes").values()
    assert provider.inputs["clusterIdentifier"] == "demo"
    assert (provider.name, "kubeconfig") in everything.secret_inputs
    objects = [each for each in everything.resources.values() if each.type.startswith("kubernetes")]
    assert len(objects) > 20
    assert all(everything.providers[each.urn].startswith(provider.urn) for each in objects)


def test_pod_network_and_cloud_controller_manager_wait_for_no_one(everything: AddonsRun) -> None:
    assert not everything.one(CHART, "demo-addons-cilium").dependencies
    ccm = everything.one(DAEMON_SET, CCM)
    assert not any(everything.waits_for(ccm, each) for each in everything.all(CHART).values())


def test_every_other_chart_waits_for_pod_network_and_cloud_controller_manager(
    everything: AddonsRun,
) -> None:
    first = (everything.one(CHART, "demo-addons-cilium"), everything.one(DAEMON_SET, CCM))
    for each in everything.all(CHART).values():
        if each not in first:
            assert all(everything.waits_for(each, earlier) for earlier in first), each.name


def test_addons_with_monitoring_objects_come_after_monitoring(everything: AddonsRun) -> None:
    monitoring = everything.one(CHART, "demo-addons-kube-prometheus-stack")
    for name in ("traefik", "kured"):
        assert everything.waits_for(everything.one(CHART, f"demo-addons-{name}"), monitoring)


REDIRECTION = "v2:CiliumLocalRedirectPolicy"


class TestNodeDns:
    def test_cilium_leads_pods_to_the_coredns_on_their_node(self, default: AddonsRun) -> None:
        [redirection] = default.all(REDIRECTION).values()
        spec = redirection.inputs["spec"]
        assert redirection.inputs["metadata"]["namespace"] == "kube-system"
        assert spec["redirectFrontend"]["serviceMatcher"]["serviceName"] == "kube-dns"
        ports = {each["name"]: each["protocol"] for each in spec["redirectBackend"]["toPorts"]}
        assert ports == {"dns": "UDP", "dns-tcp": "TCP"}
        assert default.chart_values("cilium")["localRedirectPolicies"] == {"enabled": True}
        # Which brings this kind of object.
        assert default.waits_for(redirection, default.one(CHART, "demo-addons-cilium"))

    def test_switched_off_nothing_of_cilium_is_needed_for_it(self) -> None:
        run = install({"nodeDns": {"enabled": False}})
        assert not run.all(REDIRECTION)
        assert run.chart_values("cilium")["localRedirectPolicies"] == {"enabled": False}

    def test_another_pod_network_has_no_such_redirection(self) -> None:
        assert not install({"cni": {"kind": "none"}}).all(REDIRECTION)


def test_a_cilium_agent_starts_only_after_its_configuration() -> None:
    # The chart's objects are created in parallel; an agent without its ConfigMap runs on forever.
    chosen = cilium.values(control_plane_count=3, mtu=1450, node_dns=True)
    waits = {"config.kubernetes.io/depends-on": "/namespaces/kube-system/ConfigMap/cilium-config"}
    assert chosen["annotations"] == waits
    assert chosen["operator"]["annotations"] == waits
