"""The objects that the add-ons create, and the settings that they refuse."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pulumi
import pytest
import yaml
from pulumi.output import Unknown
from pulumi.runtime.mocks import MockResourceArgs
from pulumi.runtime.sync_await import _sync_await

import versions
from addons import (
    api,
    chart,
    cilium,
    cinder_csi,
    cloud_conf,
    cloud_controller_manager,
    crds,
    headlamp,
)
from addons.cloud_conf import CloudConfig, Credential
from addons.image_mirror import mirror_images, mirrored
from addons.installer import concealed
from addons.monitoring import alerts, narrow_roles
from addons.programs import take_snapshots
from components.addons import Addons, charts
from components.credential import cloud_configs
from components.kubeadm_files import cloud_config_files
from config.errors import ConfigError
from config.load import Secrets, load
from config.models.addons import AddonsSettings
from tests.unit.engine import CLUSTER_ID, MINIMAL, Cloud, Recorder, Run
from tests.unit.http_servers import Silent, served

CHART = "helm.sh/v4:Chart"
SECRET = "core/v1:Secret"
DAEMON_SET = "apps/v1:DaemonSet"
CCM = f"demo-addons-{cloud_controller_manager.NAME}"
LOGINS = (cloud_controller_manager.NAME, cinder_csi.CHART.name)
OPERATOR = {"operator": {"enabled": True}}
OPTIONAL = ("snapshots", "monitoring", "ingress", "headlamp", "logging", "operator", "kured")
CREDENTIAL_SECRET = 's3"cr\\et'


@dataclass
class AddonsRun(Run):
    """A run that also records providers, and how many transforms each resource has."""

    providers: dict[str, str] = field(default_factory=dict)
    transforms: dict[str, int] = field(default_factory=dict)
    # The output of the component: one, or none while it is unknown.
    kubeconfigs: list[str] = field(default_factory=list)
    # Files below /etc/kubernetes on the control planes, which log in to the cloud.
    files: dict[str, str] = field(default_factory=dict)

    def made(self) -> set[str]:
        return {each.name for each in self.resources.values() if "kubernetes" in each.type}

    def chart_values(self, name: str) -> dict[str, Any]:
        values: dict[str, Any] = self.one(CHART, f"demo-addons-{name}").inputs["values"]
        return values

    def file(self, secret: str, name: str) -> str:
        return base64.b64decode(self.one(SECRET, secret).inputs["data"][name]).decode()

    def cloud_config(self, program: str = cloud_controller_manager.NAME) -> str:
        return self.files[f"cloud/{program}/cloud.conf"]


class AddonsRecorder(Recorder):
    def __init__(self, cloud: Cloud, run: AddonsRun) -> None:
        super().__init__(cloud, run)
        self._addons_run = run

    def RegisterResource(self, request: Any) -> Any:  # noqa: ANN401, N802
        response = super().RegisterResource(request)
        self._addons_run.transforms[request.name] = len(request.transforms)
        self._addons_run.providers[response.urn] = request.provider
        return response


class Unbound(Cloud):
    """As a preview of the first update: nothing binds the administrators yet."""

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        known, state = super().new_resource(args)
        return ("" if args.name == "demo-addons-administrators" else known), state


def install(
    raw: Mapping[str, Any] | None = None,
    *,
    cloud: Cloud | None = None,
    control_plane_count: int = 3,
    preview: bool = False,
    checks: bool = False,
    kubeconfig: str = "kubeconfig",
    ca_certificate: str | None = None,
    oidc: Mapping[str, str] | None = None,
    oidc_client_secret: str | None = None,
    with_secrets: bool = False,
) -> AddonsRun:
    """Register only the component of the add-ons."""
    recorded = AddonsRun()
    cloud = cloud or Cloud(())
    cluster = load(
        {
            **MINIMAL,
            "cloudChecks": checks,
            "controlPlaneCount": control_plane_count,
            "oidc": oidc,
            "addons": raw,
        },
        "demo",
    )
    hidden = pulumi.Output.secret
    secrets = Secrets(
        keys=frozenset({"addons"} if with_secrets else ()),
        ssh_private_key=None,
        oidc_client_secret=None if oidc_client_secret is None else hidden(oidc_client_secret),
        backup_secret_key=None,
    )
    credential = Credential(
        auth_url="https://keystone.example.org/v3",
        region="RegionOne",
        id=pulumi.Output.from_input("credential-id"),
        secret=hidden(CREDENTIAL_SECRET),
        ca_certificate=ca_certificate,
    )
    pulumi.runtime.set_mocks(cloud, preview=preview, monitor=AddonsRecorder(cloud, recorded))

    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def program() -> None:
        # Only what the add-ons use of the other components.
        context: Any = SimpleNamespace(
            cluster=cluster,
            network=SimpleNamespace(
                mtu=pulumi.Output.from_input(1450),
                subnet_id=pulumi.Output.from_input("subnet-id"),
                external_network_id="public-id",
                anchor=pulumi.CustomResource("test:index:Network", "demo", {}),
            ),
            pki=SimpleNamespace(
                administrator=None,
                cluster_id=pulumi.Output.from_input(CLUSTER_ID),
                kubeconfig=lambda *_: hidden("administrator's kubeconfig"),
            ),
            gateway=SimpleNamespace(floating_ip=pulumi.Output.from_input("203.0.113.7")),
        )
        membership = pulumi.CustomResource("test:index:Membership", "demo-membership", {})
        control_plane: Any = SimpleNamespace(
            api_ready=pulumi.CustomResource("test:index:Script", "demo-api", {}),
            kubeconfig=hidden(kubeconfig),
            endpoint=pulumi.Output.from_input("https://203.0.113.7:6443"),
            memberships=[("demo-control-plane-0", membership)],
        )
        configs = cloud_configs(context, credential)
        for path, text in cloud_config_files(configs).items():
            pulumi.Output.from_input(text).apply(partial(recorded.files.__setitem__, path))
        addons = Addons(
            "demo-addons",
            context,
            control_plane=control_plane,
            cloud_configs=configs,
            secrets=secrets,
        )
        addons.kubeconfig.apply(recorded.kubeconfigs.append)

    program()
    return recorded


def chart_names(run: AddonsRun) -> set[str]:
    return {each.inputs["name"] for each in run.all(CHART).values()}


@pytest.fixture(scope="module")
def default() -> AddonsRun:
    return install()


@pytest.fixture(scope="module")
def everything() -> AddonsRun:
    return install({name: {"enabled": True} for name in OPTIONAL})


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


class TestValues:
    def test_the_users_values_are_merged_last_and_deeply(self) -> None:
        run = install(
            {
                "cni": {"values": {"ipam": {"mode": "cluster-pool"}, "operator": {"replicas": 1}}},
                "metricsServer": {"values": {"args": []}},
                "cinderCsi": {"values": {"csi": {"plugin": {"nodePlugin": {"kubeletDir": "/k"}}}}},
            }
        )
        cilium = run.chart_values("cilium")
        assert cilium["ipam"] == {"mode": "cluster-pool"}
        assert cilium["operator"]["replicas"] == 1
        assert cilium["operator"]["rollOutPods"] is True
        assert run.chart_values("metrics-server")["args"] == []
        plugin = run.chart_values("openstack-cinder-csi")["csi"]["plugin"]
        assert plugin["nodePlugin"] == {"kubeletDir": "/k"}
        assert plugin["controllerPlugin"]["replicas"] == 2

    def test_pod_traffic_travels_in_a_tunnel_that_fits_the_network(
        self, default: AddonsRun
    ) -> None:
        values = default.chart_values("cilium")
        assert (values["routingMode"], values["tunnelProtocol"]) == ("tunnel", "vxlan")
        assert values["MTU"] == 1450
        assert values["ipam"]["mode"] == "kubernetes"

    @pytest.mark.parametrize(("control_plane_count", "replicas"), [(1, 1), (3, 2), (5, 2)])
    def test_what_must_survive_a_node_has_two_replicas_if_two_fit(
        self, control_plane_count: int, replicas: int
    ) -> None:
        run = install(control_plane_count=control_plane_count)
        assert run.chart_values("cilium")["operator"]["replicas"] == replicas
        csi = run.chart_values("openstack-cinder-csi")["csi"]["plugin"]["controllerPlugin"]
        assert csi["replicas"] == replicas

    def test_the_ingress_has_the_node_ports_that_the_gateways_use(
        self, everything: AddonsRun
    ) -> None:
        values = everything.chart_values("traefik")
        assert values["service"]["spec"]["type"] == "NodePort"
        ports = values["ports"]
        assert (ports["web"]["nodePort"], ports["websecure"]["nodePort"]) == (30080, 30443)
        assert ports["web"]["proxyProtocol"]["trustedIPs"] == ["10.8.0.0/22", "10.244.0.0/16"]

    def test_gateway_api_serves_every_namespace_if_it_is_enabled(self) -> None:
        served = install({"ingress": {"enabled": True, "gatewayApi": True}})
        values = served.chart_values("traefik")
        assert values["providers"]["kubernetesGateway"]["enabled"]
        assert values["gatewayClass"]["enabled"]
        assert values["gateway"]["enabled"]
        assert values["gateway"]["listeners"]["web"]["namespacePolicy"] == {"from": "All"}
        values = install({"ingress": {"enabled": True}}).chart_values("traefik")
        assert not values["providers"]["kubernetesGateway"]["enabled"]
        assert not values["gateway"]["enabled"]

    def test_nginx_takes_the_place_of_traefik_at_the_same_ports(self) -> None:
        run = install({"ingress": {"enabled": True, "controller": "nginx", "replicas": 3}})
        assert "traefik" not in chart_names(run)
        controller = run.chart_values("nginx-ingress")["controller"]
        service = controller["service"]
        assert (service["type"], service["externalTrafficPolicy"]) == ("NodePort", "Cluster")
        assert service["httpPort"] == {"nodePort": 30080}
        assert service["httpsPort"] == {"nodePort": 30443}
        assert controller["replicaCount"] == 3
        entries = controller["config"]["entries"]
        assert entries["proxy-protocol"] == "True"
        assert entries["set-real-ip-from"] == "10.8.0.0/22,10.244.0.0/16"

    def test_nginx_has_a_certificate_for_hosts_without_one(self) -> None:
        run = install({"ingress": {"enabled": True, "controller": "nginx"}})
        controller = run.chart_values("nginx-ingress")["controller"]
        assert controller["defaultTLS"] == controller["wildcardTLS"]
        space, _, name = controller["wildcardTLS"]["secret"].partition("/")
        secret = run.one(SECRET, f"demo-addons-{name}").inputs
        assert secret["metadata"] == {"namespace": space, "name": name}
        # NGINX accepts no Secret of another type.
        assert secret["type"] == "kubernetes.io/tls"
        assert set(secret["data"]) == {"tls.crt", "tls.key"}

    def test_an_ingress_shows_the_floating_ip_as_its_address(self) -> None:
        raw: dict[str, Any] = {"enabled": True, "gatewayApi": True}
        providers = install({"ingress": raw}).chart_values("traefik")["providers"]
        assert providers["kubernetesIngress"]["ingressEndpoint"] == {"ip": "203.0.113.7"}
        assert providers["kubernetesGateway"]["statusAddress"]["ip"] == "203.0.113.7"
        # With Octavia, the Service has an address of its own.
        octavia = install({"loadBalancer": "octavia", "ingress": raw}).chart_values("traefik")
        assert octavia["providers"]["kubernetesIngress"] == {}
        nginx = install({"ingress": {"enabled": True, "controller": "nginx"}})
        entries = nginx.chart_values("nginx-ingress")["controller"]["config"]["entries"]
        assert entries["external-status-address"] == "203.0.113.7"

    def test_nginx_behind_octavia_sees_the_clients_address_too(self) -> None:
        run = install(
            {"loadBalancer": "octavia", "ingress": {"enabled": True, "controller": "nginx"}}
        )
        controller = run.chart_values("nginx-ingress")["controller"]
        assert "external-status-address" not in controller["config"]["entries"]
        service = controller["service"]
        assert service["type"] == "LoadBalancer"
        assert service["annotations"] == {"loadbalancer.openstack.org/proxy-protocol": "true"}
        assert service["httpPort"] == {}

    def test_reboots_wait_for_alerts_only_with_monitoring(self, everything: AddonsRun) -> None:
        alone = install({"kured": {"enabled": True, "days": ["sa"], "startTime": "3:00"}})
        configuration = alone.chart_values("kured")["configuration"]
        assert (configuration["rebootDays"], configuration["startTime"]) == (["sa"], "3:00")
        assert "prometheusUrl" not in configuration
        monitored = everything.chart_values("kured")["configuration"]
        assert "prometheusUrl" in monitored
        assert monitored["alertFiringOnly"] is True
        ignored = monitored["alertFilterRegexp"]
        assert re.fullmatch(ignored, "CPUThrottlingHigh")
        # An alert that waits for a reboot must not hold it back.
        assert re.fullmatch(ignored, alerts.REBOOT_OVERDUE)
        assert everything.chart_values("kured")["metrics"] == {"create": True}
        assert not re.fullmatch(ignored, "GatewayTookOver")

    @pytest.mark.parametrize(
        ("required", "down", "reboots"),
        [
            (True, "none", True),
            (True, "10.8.0.21", False),
            (True, "10.8.0.23", False),
            (False, "none", False),
        ],
    )
    def test_no_node_reboots_while_a_control_plane_is_not_ready(
        self, tmp_path: Path, required: bool, down: str, reboots: bool
    ) -> None:
        run = install({"kured": {"enabled": True}}, control_plane_count=3)
        command = run.chart_values("kured")["configuration"]["rebootSentinelCommand"]
        # The chart writes it into YAML as it is.
        assert yaml.safe_load(f"--reboot-sentinel-command={command}") == (
            f"--reboot-sentinel-command={command}"
        )
        asked = tmp_path / "asked"
        (tmp_path / "curl").write_text(
            f"#!/bin/sh\nfor url; do :; done; echo $url >>{asked}\n"
            f"[ $url != https://{down}:6443/readyz ]"
        )
        (tmp_path / "curl").chmod(0o755)
        sentinel = tmp_path / "reboot-required"
        if required:
            sentinel.touch()
        words = shlex.split(command.replace("/var/run/reboot-required", str(sentinel)))
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(words, env={"PATH": path}, check=False)
        # Kured takes any other status for a fault of the command.
        assert done.returncode == (0 if reboots else 1)
        if reboots:
            assert asked.read_text().split() == [
                f"https://10.8.0.{last}:6443/readyz" for last in (21, 22, 23)
            ]

    def test_the_operator_starts_after_its_kinds_exist(self, everything: AddonsRun) -> None:
        # An operator that starts earlier never looks for them again.
        operator = everything.chart_values("kube-prometheus-stack")["prometheusOperator"]
        kinds = operator["annotations"]["config.kubernetes.io/depends-on"].split(",")
        assert len(kinds) == 10
        definition = "apiextensions.k8s.io/CustomResourceDefinition"
        assert f"{definition}/prometheuses.monitoring.coreos.com" in kinds

    def test_volumes_in_use_can_have_snapshots(self, everything: AddonsRun) -> None:
        [kind] = everything.chart_values("snapshot-controller")["volumeSnapshotClasses"]
        assert kind["parameters"] == {"force-create": "true"}

    def test_old_metrics_are_deleted_before_their_volume_is_full(self) -> None:
        run = install({"monitoring": {"enabled": True, "storageSize": "100Gi"}})
        spec = run.chart_values("kube-prometheus-stack")["prometheus"]["prometheusSpec"]
        assert spec["retentionSize"] == "87040MB"

    def test_the_monitoring_has_targets_alerts_and_dashboards_of_the_cluster(
        self, everything: AddonsRun
    ) -> None:
        chart_ = everything.one(CHART, "demo-addons-kube-prometheus-stack")
        objects = {
            each.name.removeprefix("demo-addons-"): each
            for each in everything.resources.values()
            if "monitoring.coreos.com" in each.type
        }
        assert set(objects) == {
            "gateways-haproxy",
            "gateways-node-exporter",
            "openstack-kubernetes",
        }
        assert all(everything.waits_for(each, chart_) for each in objects.values())
        rule = objects["openstack-kubernetes"].inputs["spec"]["groups"]
        assert {group["name"] for group in rule} >= {
            "openstack-kubernetes-gateways",
            "openstack-kubernetes-etcd",
        }
        found = everything.all("core/v1:ConfigMap").values()
        labels = sorted(label for each in found for label in each.inputs["metadata"]["labels"])
        assert labels == ["grafana_dashboard"] * 3 + ["grafana_datasource"]

    def test_a_cluster_of_the_fleet_that_is_silent_holds_back_no_reboot(self) -> None:
        run = install({"monitoring": {"enabled": True, "fleet": True}, "kured": {"enabled": True}})
        ignored = run.chart_values("kured")["configuration"]["alertFilterRegexp"]
        assert all(re.fullmatch(ignored, each) for each in alerts.FLEET_ALERTS)
        # The chart's own would mean other clusters, too, so ours takes its place.
        disabled = run.chart_values("kube-prometheus-stack")["defaultRules"]["disabled"]
        assert disabled["TargetDown"] is True
        rules = run.one("PrometheusRule", "demo-addons-openstack-kubernetes")
        named = {
            rule["alert"]: rule["expr"]
            for group in rules.inputs["spec"]["groups"]
            for rule in group["rules"]
        }
        assert 'up{job!="fleet"}' in named["TargetDown"]
        assert "demo-addons-dashboard-fleet" in run.all("core/v1:ConfigMap")

    def test_grafana_shows_the_logs_if_both_are_enabled(self, everything: AddonsRun) -> None:
        [plugin] = everything.chart_values("kube-prometheus-stack")["grafana"]["plugins"]
        assert re.fullmatch(r"victoriametrics-logs-datasource@\d+\.\d+\.\d+", plugin)
        source = everything.one("core/v1:ConfigMap", "demo-addons-datasource-logs")
        [text] = source.inputs["data"].values()
        assert ".logging:9428" in text

    @pytest.mark.parametrize("logs", [{}, {"enabled": True, "grafana": False}])
    def test_without_logs_grafana_needs_no_plugin(self, logs: Mapping[str, Any]) -> None:
        run = install({"monitoring": {"enabled": True}, "logging": logs})
        assert run.chart_values("kube-prometheus-stack")["grafana"]["plugins"] == []
        assert "demo-addons-datasource-logs" not in run.all("core/v1:ConfigMap")

    def test_the_plugin_can_come_from_another_url(self) -> None:
        url = "https://files.example.org/plugin.zip"
        logs = {"enabled": True, "grafanaPluginUrl": url}
        run = install({"monitoring": {"enabled": True}, "logging": logs})
        [plugin] = run.chart_values("kube-prometheus-stack")["grafana"]["plugins"]
        assert plugin.endswith(f"@{url}")

    def test_headlamp_itself_is_no_administrator(self, everything: AddonsRun) -> None:
        assert everything.chart_values("headlamp")["clusterRoleBinding"] == {"create": False}


class TestLogging:
    def test_pods_and_journals_of_every_node_are_collected(self, everything: AddonsRun) -> None:
        values = everything.chart_values("fluent-bit")
        assert values["tolerations"] == [{"operator": "Exists"}]
        assert "/var/log/containers/" in values["config"]["inputs"]
        assert "systemd" in values["config"]["inputs"]
        # Both outputs lead to the Service that the chart creates.
        assert values["config"]["outputs"].count("Host victoria-logs-single-server.logging") == 2

    def test_the_collector_can_only_write_its_state(self, everything: AddonsRun) -> None:
        mounts = everything.chart_values("fluent-bit")["daemonSetVolumeMounts"]
        writable = [each["mountPath"] for each in mounts if not each.get("readOnly")]
        assert writable == ["/var/lib/fluent-bit"]

    def test_logging_is_monitored_only_with_monitoring(self, everything: AddonsRun) -> None:
        alone = install({"logging": {"enabled": True}})
        for run, monitored in ((everything, True), (alone, False)):
            collector, server = (
                run.chart_values(name) for name in ("fluent-bit", "victoria-logs-single")
            )
            assert collector["serviceMonitor"] == {"enabled": monitored}
            assert server["server"]["serviceMonitor"] == {"enabled": monitored}


class TestHeadlamp:
    RAW: ClassVar[Mapping[str, Any]] = {"headlamp": {"enabled": True, "host": "k.example.org"}}
    OIDC: ClassVar[Mapping[str, str]] = {
        "issuerUrl": "https://login.example.org",
        "clientId": "kubernetes",
    }

    def test_the_client_secret_is_in_a_secret_and_nowhere_else(self) -> None:
        run = install(self.RAW, oidc=self.OIDC, oidc_client_secret="s3cret-of-the-client")
        name = f"demo-addons-{headlamp.OIDC_SECRET}"
        assert run.file(name, "OIDC_CLIENT_SECRET") == "s3cret-of-the-client"
        assert run.file(name, "OIDC_SCOPES") == "openid,profile,email"
        assert (name, "data") in run.secret_inputs
        oidc = run.chart_values("headlamp")["config"]["oidc"]
        assert oidc["externalSecret"]["name"] == headlamp.OIDC_SECRET
        assert "s3cret-of-the-client" not in str(run.chart_values("headlamp"))

    def test_a_public_client_uses_pkce(self) -> None:
        run = install(self.RAW, oidc=self.OIDC)
        oidc = run.chart_values("headlamp")["config"]["oidc"]
        assert (oidc["clientID"], oidc["usePKCE"]) == ("kubernetes", True)
        assert f"demo-addons-{headlamp.OIDC_SECRET}" not in run.all(SECRET)

    def test_without_oidc_users_log_in_with_a_token(self) -> None:
        oidc = install(self.RAW).chart_values("headlamp")["config"]["oidc"]
        assert oidc == {"secret": {"create": False}}

    def test_it_has_an_ingress_only_with_a_host(self, everything: AddonsRun) -> None:
        assert "ingress" not in everything.chart_values("headlamp")
        ingress = install(self.RAW).chart_values("headlamp")["ingress"]
        assert ingress["hosts"][0]["host"] == "k.example.org"
        assert "ingressClassName" not in ingress
        # An Ingress of the other controller must move to this one.
        both = install({**self.RAW, "ingress": {"enabled": True, "controller": "nginx"}})
        assert both.chart_values("headlamp")["ingress"]["ingressClassName"] == "nginx"


def test_crds_stay_in_the_cluster_with_what_their_objects_stand_for() -> None:
    assert install({"snapshots": {"enabled": True}}).transforms["demo-addons-snapshot-controller"]
    assert install(OPERATOR).transforms["demo-addons-pulumi-kubernetes-operator"]
    for kind, kept in (
        ("apiextensions.k8s.io/v1:CustomResourceDefinition", True),
        ("apps/v1:Deployment", None),
    ):
        args = pulumi.ResourceTransformArgs(
            custom=True,
            type_=f"kubernetes:{kind}",
            name="n",
            props={},
            opts=pulumi.ResourceOptions(),
        )
        result = crds.keep(args)
        assert (result and result.opts.retain_on_delete) == kept


def test_crds_of_charts_lose_descriptions_and_keep_every_field() -> None:
    names = ("snapshots", "monitoring", "ingress", "operator")
    made = install({each: {"enabled": True} for each in names})
    nginx = install({"ingress": {"enabled": True, "controller": "nginx"}})
    # Those of snapshots and of the operator are also retained.
    for run, name, transforms in (
        (made, "snapshot-controller", 2),
        (made, "pulumi-kubernetes-operator", 2),
        (made, "kube-prometheus-stack", 2),
        (made, "traefik", 1),
        (nginx, "nginx-ingress", 1),
    ):
        assert run.transforms[f"demo-addons-{name}"] == transforms

    def of(description: dict[str, str]) -> dict[str, Any]:
        field = {"type": "string", "default": {"description": "stays"}, **description}
        listed = {"type": "array", "items": {"properties": {"a": field}, **description}}
        more = {"type": "object", "additionalProperties": field, **description}
        # A field with this name is not a description.
        fields = {"description": field, "list": listed, "map": more}
        schema = {"openAPIV3Schema": {"properties": fields, **description}}
        versions = [{"name": "v1", "schema": schema}, {"name": "v1alpha1"}]
        return {"kind": "CustomResourceDefinition", "spec": {"group": "g", "versions": versions}}

    def transformed(type_: str) -> pulumi.ResourceTransformResult | None:
        return crds.without_descriptions(
            pulumi.ResourceTransformArgs(
                custom=True, type_=type_, name="n", props=of({"description": "Many words."}),
                opts=pulumi.ResourceOptions(),
            )
        )  # fmt: skip

    result = transformed(crds.TYPE)
    assert result
    assert result.props == of({})
    assert transformed("kubernetes:apps/v1:Deployment") is None


class TestSnapshotSchedules:
    RAW: ClassVar[Mapping[str, Any]] = {
        "snapshots": {
            "enabled": True,
            "schedules": [
                {"name": "nightly", "schedule": "30 2 * * *", "selector": {"tier": "data"}},
                {"name": "weekly", "schedule": "@weekly", "keep": 3, "namespaces": ["shop"]},
            ],
        }
    }

    @staticmethod
    def container(run: AddonsRun, name: str) -> dict[str, Any]:
        spec = run.one(":CronJob", f"demo-addons-snapshots-{name}").inputs["spec"]
        pod = spec["jobTemplate"]["spec"]["template"]["spec"]
        container: dict[str, Any] = pod["containers"][0]
        return container

    def environment(self, run: AddonsRun, name: str) -> dict[str, Any]:
        variables = self.container(run, name)["env"]
        return {each["name"]: each.get("value") for each in variables}

    def test_without_a_schedule_there_is_no_cron_job(self, everything: AddonsRun) -> None:
        assert not everything.all(":CronJob")

    def test_each_schedule_has_a_cron_job_with_its_settings(self) -> None:
        run = install(self.RAW)
        jobs = run.all(":CronJob").values()
        assert {each.inputs["spec"]["schedule"] for each in jobs} == {"30 2 * * *", "@weekly"}
        nightly, weekly = (self.environment(run, name) for name in ("nightly", "weekly"))
        assert (nightly["KEEP"], nightly["SELECTOR"]) == ("7", "tier=data")
        assert (weekly["KEEP"], weekly["NAMESPACES"]) == ("3", "shop")
        chart_ = run.one(CHART, "demo-addons-snapshot-controller")
        assert all(run.waits_for(each, chart_) for each in jobs)

    def test_the_program_understands_its_environment(self) -> None:
        run = install(self.RAW)
        [files] = [each.inputs["data"] for each in run.all("core/v1:ConfigMap").values()]
        compile(files["take_snapshots.py"], "take_snapshots.py", "exec")
        given = {**self.environment(run, "nightly"), "JOB": "nightly-1"}
        assert take_snapshots.Plan.of(given).schedule == "nightly"

    def test_the_program_cannot_read_data(self) -> None:
        run = install(self.RAW)
        role = run.one(":ClusterRole", "demo-addons-take-snapshots")
        verbs = {rule["resources"][0]: set(rule["verbs"]) for rule in role.inputs["rules"]}
        assert verbs == {
            "persistentvolumeclaims": {"list"},
            "volumesnapshots": {"get", "list", "create", "delete"},
        }
        context = self.container(run, "nightly")["securityContext"]
        assert context["readOnlyRootFilesystem"] is True

    def test_the_image_is_pinned(self) -> None:
        image = self.container(install(self.RAW), "weekly")["image"]
        assert re.search(r"/python:\d+\.\d+\.\d+-", image)

    def test_the_alert_covers_the_cron_jobs(self) -> None:
        run = install({**self.RAW, "monitoring": {"enabled": True}})
        [rule] = [e for e in run.resources.values() if e.type.endswith(":PrometheusRule")]
        text = json.dumps(rule.inputs["spec"])
        assert "nightly|weekly" in text


class TestCloudControllerManager:
    @staticmethod
    def pod(run: AddonsRun) -> dict[str, Any]:
        pod: dict[str, Any] = run.one(DAEMON_SET, CCM).inputs["spec"]["template"]["spec"]
        return pod

    def test_it_runs_only_on_control_planes_and_needs_no_pod_network(
        self, default: AddonsRun
    ) -> None:
        pod = self.pod(default)
        assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["hostNetwork"] is True
        assert pod["dnsPolicy"] == "Default"

    def test_it_has_only_the_rights_it_needs(self, default: AddonsRun) -> None:
        [role] = default.all(":ClusterRole").values()
        resources = {name for rule in role.inputs["rules"] for name in rule["resources"]}
        assert resources == {"nodes", "nodes/status", "events"}
        [container] = self.pod(default)["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}

    def test_without_octavia_it_creates_no_load_balancers(self, default: AddonsRun) -> None:
        [container] = self.pod(default)["containers"]
        assert not any("service-lb-controller" in each for each in container["args"])
        assert '[LoadBalancer]\nenabled = "false"\n' in default.cloud_config()

    def test_with_octavia_it_creates_load_balancers_in_the_clusters_subnet(self) -> None:
        run = install({"loadBalancer": "octavia", "ingress": {"enabled": True}})
        [container] = self.pod(run)["containers"]
        assert any("service-lb-controller" in each for each in container["args"])
        assert f"--cluster-name={CLUSTER_ID}" in container["args"]
        config = run.cloud_config()
        assert 'subnet-id = "subnet-id"' in config
        assert 'floating-network-id = "public-id"' in config
        assert 'manage-security-groups = "false"' in config
        [role] = run.all(":ClusterRole").values()
        assert "services" in {r for rule in role.inputs["rules"] for r in rule["resources"]}
        assert run.chart_values("traefik")["service"]["spec"]["type"] == "LoadBalancer"

    def test_image_arguments_and_configuration_can_be_changed(self) -> None:
        run = install(
            {
                "cloudControllerManager": {
                    "image": "registry.example.org/ccm:1",
                    "extraArgs": ["--v=4"],
                    "cloudConfig": {
                        "Networking": {"public-network-name": "net"},
                        "Metadata": {"search-order": "metadataService"},
                    },
                }
            }
        )
        [container] = self.pod(run)["containers"]
        assert container["image"] == "registry.example.org/ccm:1"
        assert container["args"][-1] == "--v=4"
        config = run.cloud_config()
        assert '[Networking]\nipv6-support-disabled = "true"\npublic-network-name = "net"' in config
        assert '[Metadata]\nsearch-order = "metadataService"\n' in config

    def test_a_rotated_credential_restarts_its_pods(self, default: AddonsRun) -> None:
        def checksum(run: AddonsRun) -> str:
            template = run.one(DAEMON_SET, CCM).inputs["spec"]["template"]
            annotation: str = template["metadata"]["annotations"]["checksum/cloud-config"]
            return annotation

        assert checksum(default) == checksum(install())
        assert checksum(default) != checksum(install(ca_certificate="PEM"))


class TestCredential:
    def test_it_is_in_no_object_that_an_addon_could_read(self, everything: AddonsRun) -> None:
        secrets = everything.all(SECRET)
        assert set(secrets) == {
            f"demo-addons-{cinder_csi.NODE_CONFIG}",
            "demo-addons-grafana-admin",
        }
        assert {(name, "data") for name in secrets} <= everything.secret_inputs
        for each in everything.resources.values():
            assert CREDENTIAL_SECRET not in str(each.inputs), each.name

    def test_only_programs_that_run_log_in(self, default: AddonsRun) -> None:
        assert set(default.files) == {f"cloud/{program}/cloud.conf" for program in LOGINS}
        assert not install(
            {"cinderCsi": {"enabled": False}, "cloudControllerManager": {"enabled": False}}
        ).files

    def test_a_quote_in_it_does_not_end_the_value(self, default: AddonsRun) -> None:
        config = default.cloud_config()
        assert 'application-credential-secret = "s3\\"cr\\\\et"\n' in config

    def test_a_private_ca_is_stored_alongside_it(self, default: AddonsRun) -> None:
        run = install(ca_certificate="PEM")
        for program in LOGINS:
            assert run.files[f"cloud/{program}/ca.crt"] == "PEM"
            assert 'ca-file = "/etc/config/ca.crt"' in run.cloud_config(program)
        assert "ca-file" not in default.cloud_config()

    def test_the_node_plugin_of_cinder_csi_has_no_credential(self) -> None:
        run = install(
            {"cinderCsi": {"cloudConfig": {"BlockStorage": {"node-volume-attach-limit": "20"}}}}
        )
        config = run.file(f"demo-addons-{cinder_csi.NODE_CONFIG}", "cloud.conf")
        assert config == '[BlockStorage]\nnode-volume-attach-limit = "20"\n'

        def mounted(kind: str) -> dict[str, Any]:
            volumes = [
                {"name": "a"},
                {"name": "b", "secret": {"secretName": cinder_csi.NODE_CONFIG}},
            ]
            args = pulumi.ResourceTransformArgs(
                custom=True,
                type_=f"kubernetes:apps/v1:{kind}",
                name="x",
                props={"spec": {"template": {"spec": {"volumes": volumes}}}},
                opts=pulumi.ResourceOptions(),
            )
            credential = Credential(auth_url="u", region="r", id="i", secret="s")
            config = CloudConfig("program", credential, {})
            result: Any = cinder_csi.config_of_the_controller(config)(args)
            props: Any = args.props if result is None else result.props
            volume: dict[str, Any] = props["spec"]["template"]["spec"]["volumes"][1]
            return volume

        folder = {"path": "/etc/kubernetes/cloud/program", "type": "Directory"}
        assert mounted("Deployment") == {"name": "b", "hostPath": folder}
        assert mounted("DaemonSet")["secret"] == {"secretName": cinder_csi.NODE_CONFIG}

    def test_alertmanagers_configuration_is_secret_too(self) -> None:
        run = install(
            {"monitoring": {"enabled": True, "alertmanager": {"route": {"receiver": "r"}}}}
        )
        assert ("demo-addons-alertmanager-config", "data") in run.secret_inputs
        spec = run.chart_values("kube-prometheus-stack")["alertmanager"]["alertmanagerSpec"]
        assert spec["configSecret"] == "alertmanager-config"


class TestAccess:
    POLICY = "networking.k8s.io/v1:NetworkPolicy"

    @staticmethod
    def admitted(run: AddonsRun, namespace: str) -> set[str]:
        """The namespaces whose pods reach those of this one, besides its own."""
        spec = run.one(TestAccess.POLICY, f"demo-addons-{namespace}").inputs["spec"]
        assert (spec["podSelector"], spec["policyTypes"]) == ({}, ["Ingress"])
        [rule] = spec["ingress"]
        own, *others = rule["from"]
        assert own == {"podSelector": {}}
        return {
            each["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for each in others
        }

    def test_each_namespace_admits_whoever_needs_its_pods(self) -> None:
        run = install(
            {
                **{name: {"enabled": True} for name in OPTIONAL},
                "snapshots": {
                    "enabled": True,
                    "schedules": [{"name": "nightly", "schedule": "0 2 * * *"}],
                },
            }
        )
        made = {each.inputs["metadata"]["name"] for each in run.all("v1:Namespace").values()}
        # An ingress controller is there for everyone.
        assert {name: self.admitted(run, name) for name in made - {"ingress"}} == {
            "clusters": {"operator"},
            "headlamp": {"ingress"},
            "kured": {"monitoring"},
            "logging": {"monitoring"},
            "monitoring": {"ingress", "kured"},
            "operator": {"monitoring"},
            "snapshots": set(),
        }
        assert "demo-addons-ingress" not in run.all(self.POLICY)
        # The API server on any node passes requests on, before anyone else is kept out.
        nodes = run.one("v2:CiliumNetworkPolicy", "demo-addons-monitoring-nodes")
        assert nodes.inputs["spec"]["ingress"] == [{"fromEntities": ["host", "remote-node"]}]
        assert run.waits_for(run.one(self.POLICY, "demo-addons-monitoring"), nodes)
        assert run.waits_for(nodes, run.one(CHART, "demo-addons-cilium"))

    def test_a_pod_network_that_the_program_does_not_know_keeps_no_one_out(self) -> None:
        run = install({"cni": {"kind": "none"}, "monitoring": {"enabled": True}})
        assert not run.all(self.POLICY)

    def test_headlamp_behind_an_unknown_ingress_controller_can_be_reached(self) -> None:
        run = install({"headlamp": {"enabled": True, "host": "k.example.org"}})
        assert not run.all(self.POLICY)

    def test_monitoring_reads_no_secrets_of_other_namespaces(self, everything: AddonsRun) -> None:
        values = everything.chart_values("kube-prometheus-stack")
        assert values["kube-state-metrics"]["collectorsExclude"] == ["secrets"]
        sidecar = values["grafana"]["sidecar"]
        assert {sidecar[kind]["resource"] for kind in ("dashboards", "datasources")} == {
            "configmap"
        }
        # Else it would wait for Secrets that it is not allowed to list.
        for kind in ("alertmanagerConfig", "prometheusInstance", "thanosRulerInstance"):
            assert values["prometheusOperator"][f"{kind}Namespaces"] == ["monitoring"]

    def test_what_the_operator_loses_everywhere_it_has_in_its_own_namespace(
        self, everything: AddonsRun
    ) -> None:
        def rule(*resources: str) -> dict[str, Any]:
            return {"apiGroups": [""], "resources": list(resources), "verbs": ["*"]}

        def narrowed(name: str, *rules: dict[str, Any]) -> list[dict[str, Any]]:
            args = pulumi.ResourceTransformArgs(
                custom=True,
                type_="kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
                name="n",
                props={"metadata": {"name": name}, "rules": list(rules)},
                opts=pulumi.ResourceOptions(),
            )
            result = narrow_roles.narrow(args)
            kept: Any = (args if result is None else result).props["rules"]
            return list(kept)

        everywhere = (rule("secrets", "configmaps"), rule("statefulsets"), rule("nodes"))
        assert narrowed(narrow_roles.OPERATOR, *everywhere) == [rule("nodes")]
        grafana = "kube-prometheus-stack-grafana-clusterrole"
        assert narrowed(grafana, everywhere[0]) == [rule("configmaps")]
        assert narrowed("kube-prometheus-stack-prometheus", rule("pods")) == [rule("pods")]

        role = everything.one("v1:Role", f"demo-addons-{narrow_roles.OPERATOR}").inputs
        assert role["metadata"]["namespace"] == "monitoring"
        given = {name for each in role["rules"] for name in each["resources"]}
        assert given == {"secrets", "configmaps", "pods", "statefulsets"}
        binding = everything.one("v1:RoleBinding", f"demo-addons-{narrow_roles.OPERATOR}").inputs
        assert binding["subjects"][0]["name"] == narrow_roles.OPERATOR


class TestSecretValues:
    RAW: ClassVar = {"cinderCsi": {"values": {"a": "hidden"}}, "kured": {"enabled": True}}
    CINDER = "demo-addons-openstack-cinder-csi"
    KURED = "demo-addons-kured"

    def test_a_chart_with_user_values_hides_them(self) -> None:
        run = install(self.RAW, with_secrets=True)
        assert (self.CINDER, "values") in run.secret_inputs
        assert run.chart_values("openstack-cinder-csi")["a"] == "hidden"
        assert run.transforms[self.CINDER] == 2

    def test_a_chart_without_user_values_stays_readable(self) -> None:
        run = install(self.RAW, with_secrets=True)
        assert (self.KURED, "values") not in run.secret_inputs
        assert run.transforms[self.KURED] == 0

    def test_without_secrets_every_chart_stays_readable(self) -> None:
        run = install(self.RAW)
        assert (self.CINDER, "values") not in run.secret_inputs
        assert run.transforms[self.CINDER] == 1

    def test_objects_of_such_a_chart_are_hidden_except_for_their_names(self) -> None:
        def hidden(kind: str, props: dict[str, Any]) -> set[str]:
            metadata = {"name": "n", "annotations": {"sum": "of a secret"}}
            props |= {"apiVersion": "v1", "kind": kind, "metadata": metadata}
            args = pulumi.ResourceTransformArgs(
                custom=True, type_="t", name="n", props=props, opts=pulumi.ResourceOptions()
            )
            result = concealed(args)
            if result is None:
                return set()
            assert isinstance(result, pulumi.ResourceTransformResult)
            got: Any = result.props
            assert (got["apiVersion"], got["kind"], got["metadata"]["name"]) == ("v1", kind, "n")
            assert isinstance(got["metadata"]["annotations"], pulumi.Output)
            return {key for key, value in got.items() if isinstance(value, pulumi.Output)}

        assert hidden("Deployment", {"spec": {}}) == {"spec"}
        assert hidden("ConfigMap", {"data": {}, "binaryData": {}}) == {"data", "binaryData"}
        # The provider conceals Secrets itself, and cannot read one that is concealed twice.
        assert hidden("Secret", {"data": {}}) == set()

    def test_the_chart_itself_is_not_treated_as_an_object(self) -> None:
        args = pulumi.ResourceTransformArgs(
            custom=False,
            type_="kubernetes:helm.sh/v4:Chart",
            name="n",
            props={"chart": "kured", "values": {}},
            opts=pulumi.ResourceOptions(),
        )
        assert concealed(args) is None


class TestStorageClasses:
    def test_the_default_class_creates_volumes_where_the_pod_is(self, default: AddonsRun) -> None:
        [made] = default.all(":StorageClass").values()
        annotations = made.inputs["metadata"]["annotations"]
        assert annotations["storageclass.kubernetes.io/is-default-class"] == "true"
        assert made.inputs["volumeBindingMode"] == "WaitForFirstConsumer"
        assert made.inputs["allowVolumeExpansion"] is True

    def test_there_can_be_several_classes_by_volume_type(self) -> None:
        run = install(
            {
                "cinderCsi": {
                    "storageClasses": [
                        {"name": "fast", "volumeType": "nvme", "filesystem": "xfs"},
                        {"name": "kept", "reclaimPolicy": "Retain", "availabilityZone": "a"},
                    ]
                }
            }
        )
        fast, kept = (
            run.one(":StorageClass", f"demo-addons-{name}").inputs for name in ("fast", "kept")
        )
        assert fast["parameters"] == {"csi.storage.k8s.io/fstype": "xfs", "type": "nvme"}
        assert (kept["reclaimPolicy"], kept["parameters"]["availability"]) == ("Retain", "a")

    def test_volumes_are_marked_with_the_cluster(self, default: AddonsRun) -> None:
        assert default.chart_values("openstack-cinder-csi")["clusterID"] == CLUSTER_ID


class TestImageRegistry:
    @pytest.mark.parametrize(
        ("image", "expected"),
        [
            ("quay.io/cilium/cilium:v1@sha256:0", "r.example:5000/m/cilium/cilium:v1@sha256:0"),
            ("registry.k8s.io/pause:3", "r.example:5000/m/pause:3"),
            ("traefik/traefik:v3", "r.example:5000/m/traefik/traefik:v3"),
            ("busybox", "r.example:5000/m/library/busybox"),
            ("docker.io/traefik:v3", "r.example:5000/m/library/traefik:v3"),
            ("localhost/a:1", "r.example:5000/m/a:1"),
            ("r.example:5000/m/a:1", "r.example:5000/m/a:1"),
        ],
    )
    def test_the_mirror_takes_the_place_of_the_registry_host(
        self, image: str, expected: str
    ) -> None:
        assert mirrored(image, "r.example:5000/m") == expected

    def test_every_image_of_every_pod_comes_from_the_mirror(self) -> None:
        pod = {"initContainers": [{"image": "a.io/x"}], "containers": [{"image": "b.io/y"}]}
        job = {"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}, "kind": "CronJob"}
        args = pulumi.ResourceTransformArgs(
            custom=True, type_="t", name="n", props=job, opts=pulumi.ResourceOptions()
        )
        result = mirror_images("m")(args)
        assert isinstance(result, pulumi.ResourceTransformResult)
        changed: Any = result.props
        found = changed["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert found["initContainers"] == [{"image": "m/x"}]
        assert found["containers"] == [{"image": "m/y"}]
        assert (
            mirror_images("m")(
                pulumi.ResourceTransformArgs(
                    custom=True, type_="t", name="n", props={"data": {}}, opts=args.opts
                )
            )
            is None
        )

    def test_images_of_concealed_objects_come_from_the_mirror_too(self) -> None:
        # The engine runs a chart's own transforms first, then those of its parents.
        pod = {"containers": [{"image": "b.io/y"}]}
        args = pulumi.ResourceTransformArgs(
            custom=True, type_="t", name="n", opts=pulumi.ResourceOptions(),
            props={"kind": "Pod", "metadata": {"name": "n"}, "spec": pod},
        )  # fmt: skip
        hidden = concealed(args)
        assert isinstance(hidden, pulumi.ResourceTransformResult)
        args.props = hidden.props
        result = mirror_images("m")(args)
        assert isinstance(result, pulumi.ResourceTransformResult)
        changed: Any = result.props
        assert _sync_await(changed["spec"].future()) == {"containers": [{"image": "m/y"}]}
        assert _sync_await(changed["spec"].is_secret())

    def test_images_that_the_operator_starts_come_from_the_mirror_too(self) -> None:
        run = install({"imageRegistry": "r.example/m", "monitoring": {"enabled": True}})
        values = run.chart_values("kube-prometheus-stack")
        assert values["global"] == {"imageRegistry": "r.example/m"}


LISTED = b"""
entries:
  cilium: [{version: 0.0.1}, {version: v%s}]
  openstack-cinder-csi: [{version: %s+rebuilt}]
  metrics-server: [{version: 0.0.1}]
""" % (versions.CILIUM_CHART.encode(), versions.CINDER_CSI_CHART.encode())


class Repository(Silent):
    """A repository at /charts with a hidden index, one at /listed and one at /broken."""

    def do_HEAD(self) -> None:  # noqa: N802
        # A client that has read the index of /listed has nothing more to ask.
        there = self.path in (f"/{name}/index.yaml" for name in ("charts", "broken"))
        self.send_response(200 if there else 404)
        self.end_headers()

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(401 if self.path.startswith("/charts/") else 200)
        self.end_headers()
        self.wfile.write(LISTED if self.path.startswith("/listed/") else b"entries: [")


@pytest.fixture
def repository() -> Iterator[str]:
    with served(Repository) as url:
        yield url


class TestChartSource:
    @staticmethod
    def settings(**source: str) -> AddonsSettings:
        return AddonsSettings.model_validate(source)

    def test_by_default_each_chart_comes_pinned_from_its_official_repository(
        self, everything: AddonsRun
    ) -> None:
        for each in everything.all(CHART).values():
            assert each.inputs["version"]
            official = each.inputs.get("repositoryOpts", {}).get("repo", each.inputs["chart"])
            assert official.startswith(("https://", "oci://"))

    def test_all_charts_can_come_from_a_mirror(self) -> None:
        run = install({"chartRepository": "https://charts.example.org/all/"})
        for each in run.all(CHART).values():
            assert each.inputs["repositoryOpts"] == {"repo": "https://charts.example.org/all"}

    def test_all_charts_can_come_from_a_registry(self) -> None:
        inputs = (
            install({"chartRepository": "oci://r.example/charts"})
            .one(CHART, "demo-addons-cilium")
            .inputs
        )
        assert inputs["chart"] == "oci://r.example/charts/cilium"
        assert inputs["version"]
        assert "repositoryOpts" not in inputs

    def test_all_charts_can_come_from_a_directory(self, tmp_path: Path) -> None:
        for each in charts(AddonsSettings()):
            (tmp_path / each.name).mkdir()
            (tmp_path / each.name / "Chart.yaml").touch()
        inputs = install({"chartDirectory": str(tmp_path)}).one(CHART, "demo-addons-cilium").inputs
        assert inputs["chart"] == str(tmp_path / "cilium")
        assert "version" not in inputs

    def test_charts_missing_from_the_directory_are_named_before_anything_is_created(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "cilium").mkdir()
        (tmp_path / "cilium" / "Chart.yaml").touch()
        with pytest.raises(chart.ChartError) as caught:
            install({"chartDirectory": str(tmp_path)})
        message = str(caught.value)
        assert "openstack-cinder-csi/Chart.yaml" in message
        assert "metrics-server/Chart.yaml" in message
        assert "/cilium/" not in message
        assert "addons.chartDirectory" in message

    def test_a_repository_that_answers_is_accepted(self, repository: str) -> None:
        good = self.settings(chartRepository=f"{repository}/charts")
        chart.check(charts(good), good, online=True)

    def test_charts_missing_from_a_mirror_are_named_with_their_version(
        self, repository: str
    ) -> None:
        some = self.settings(chartRepository=f"{repository}/listed")
        with pytest.raises(chart.ChartError) as caught:
            chart.check(charts(some), some, online=True)
        message = str(caught.value)
        assert f"/listed/index.yaml lists no metrics-server {versions.METRICS_SERVER_CHART}" in (
            message
        )
        assert message.count("lists no") == 1
        assert "disable these add-ons" in message

    def test_an_index_that_cannot_be_read_is_left_to_helm(self, repository: str) -> None:
        broken = self.settings(chartRepository=f"{repository}/broken")
        chart.check(charts(broken), broken, online=True)

    def test_a_repository_without_an_index_is_refused(self, repository: str) -> None:
        wrong = self.settings(chartRepository=f"{repository}/typo")
        with pytest.raises(chart.ChartError, match=r"typo/index.yaml does not exist"):
            chart.check(charts(wrong), wrong, online=True)

    @pytest.mark.parametrize("scheme", ["http", "oci"])
    def test_a_repository_that_cannot_be_reached_is_one_clear_error(self, scheme: str) -> None:
        gone = self.settings(chartRepository=f"{scheme}://127.0.0.1:1/charts")
        with pytest.raises(chart.ChartError) as caught:
            chart.check(charts(gone), gone, online=True)
        message = str(caught.value)
        assert message.count("127.0.0.1:1/charts") == 1
        assert "cilium, openstack-cinder-csi, metrics-server" in message
        assert "addons.chartDirectory" in message

    def test_repositories_are_asked_only_at_preview(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[bool] = []
        monkeypatch.setattr(chart, "check", lambda *_, online: asked.append(online))
        monkeypatch.setattr("components.addons.when_it_answers", lambda kubeconfig: kubeconfig)
        for preview in (True, False):
            for checks in (True, False):
                install(preview=preview, checks=checks)
        assert asked == [True, False, False, False]


class TestSettings:
    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"chartRepository": "ftp://x"}, "must start with https://"),
            ({"chartRepository": "https://x", "chartDirectory": "y"}, "not both"),
            ({"imageRegistry": "https://r.example"}, "without https://"),
            ({"loadBalancer": "octavia", "cloudControllerManager": {"enabled": False}}, "octavia"),
            ({"snapshots": {"enabled": True}, "cinderCsi": {"enabled": False}}, "cinderCsi"),
            ({"cinderCsi": {"storageClasses": [{"name": "A"}]}}, "DNS label"),
            ({"cinderCsi": {"storageClasses": [{"name": "a"}, {"name": "a"}]}}, "twice"),
            (
                {
                    "cinderCsi": {
                        "storageClasses": [
                            {"name": "a", "default": True},
                            {"name": "b", "default": True},
                        ]
                    }
                },
                "only one",
            ),
            ({"ingress": {"controller": "nginx", "gatewayApi": True}}, "controller traefik"),
            ({"ingress": {"controller": "ingress-nginx"}}, "'traefik' or 'nginx'"),
            (
                {"snapshots": {"schedules": [{"name": "a", "schedule": "every night"}]}},
                "cron schedule of five fields",
            ),
            ({"snapshots": {"schedules": [{"name": "a" * 53, "schedule": "@daily"}]}}, "52"),
            (
                {"snapshots": {"schedules": [{"name": "a", "schedule": "@daily"}] * 2}},
                "names 'a' twice",
            ),
            ({"monitoring": {"storageSize": "20 GB"}}, "20Gi"),
            ({"logging": {"retention": "1 month"}}, "15d"),
            ({"kured": {"startTime": "24:00"}}, "time of day"),
            ({"kured": {"startTime": "3:30", "endTime": "4:29"}}, "an hour after startTime"),
            ({"kured": {"startTime": "23:00", "endTime": "3:00"}}, "on the same day"),
            ({"cni": {"kind": "calico"}}, "cilium"),
            ({"cinder": {}}, "did you mean addons.cinderCsi"),
        ],
    )
    def test_an_error_says_what_is_allowed(self, raw: Mapping[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load({**MINIMAL, "addons": raw}, "demo")
        assert message in str(caught.value)
        assert "addons" in str(caught.value)


def test_a_line_break_in_cloud_conf_stays_inside_its_value() -> None:
    assert cloud_conf.text({"A": {"k": "x\ny"}}, {"A": {"l": "z"}, "B": {"m": ""}}) == (
        '[A]\nk = "x\\ny"\nl = "z"\n[B]\nm = ""\n'
    )


class Api(Silent):
    """An API that is not ready when first asked."""

    statuses: ClassVar[list[int]] = []

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(self.statuses.pop(0) if self.path == "/readyz" else 404)
        self.end_headers()


@pytest.fixture
def api_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(api, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(api, "_PREVIEW_SECONDS", 0.0)
    monkeypatch.setattr(chart, "check", lambda *_, online: None)
    with served(Api) as url:
        yield url


class TestApi:
    @staticmethod
    def install(server: str, *, preview: bool) -> Mapping[str, Any]:
        kubeconfig = json.dumps({"clusters": [{"cluster": {"server": server}}]})
        run = install(preview=preview, checks=True, kubeconfig=kubeconfig)
        [provider] = run.all("pulumi:providers:kubernetes").values()
        return provider.inputs

    @pytest.mark.parametrize("preview", [True, False])
    @pytest.mark.parametrize("status", [200, 401, 403])
    def test_an_api_that_answers_is_asked_once(
        self, api_address: str, monkeypatch: pytest.MonkeyPatch, preview: bool, status: int
    ) -> None:
        monkeypatch.setattr(Api, "statuses", [status])
        assert self.install(api_address, preview=preview)["kubeconfig"]

    def test_an_update_waits_for_the_api(
        self, api_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Api, "statuses", [500, 503, 200])
        assert self.install(api_address, preview=False)["kubeconfig"]
        assert not Api.statuses

    def test_an_update_fails_if_the_api_never_answers(
        self, api_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api, "_UPDATE_SECONDS", 0.0)
        monkeypatch.setattr(Api, "statuses", [500])
        with pytest.raises(Exception, match=r"does not answer \(HTTP status 500\)"):
            self.install(api_address, preview=False)

    def test_a_preview_continues_without_the_api(self, api_address: str) -> None:
        inputs = self.install("http://127.0.0.1:1", preview=True)
        assert isinstance(inputs["kubeconfig"], Unknown)
        assert inputs["clusterIdentifier"] == "demo"


def test_a_cilium_agent_starts_only_after_its_configuration() -> None:
    # The chart's objects are created in parallel; an agent without its ConfigMap runs on forever.
    chosen = cilium.values(control_plane_count=3, mtu=1450, node_dns=True)
    waits = {"config.kubernetes.io/depends-on": "/namespaces/kube-system/ConfigMap/cilium-config"}
    assert chosen["annotations"] == waits
    assert chosen["operator"]["annotations"] == waits
