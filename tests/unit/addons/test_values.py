"""The values that the charts get."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from addons.monitoring import alerts
from tests.unit.addons.install import CHART, SECRET, AddonsRun, chart_names, install
from tests.unit.engine import CLUSTER_ID, MINIMAL
from tests.unit.programs import program


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
        assert plugin["nodePlugin"]["kubeletDir"] == "/k"
        assert plugin["controllerPlugin"]["replicas"] == 2

    def test_metrics_are_read_from_kubelets_with_a_certificate_of_the_cluster(
        self, default: AddonsRun
    ) -> None:
        arguments = default.chart_values("metrics-server")["args"]
        mounted = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
        assert arguments == [f"--kubelet-certificate-authority={mounted}"]

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
        listener = values["gateway"]["listeners"]["web"]
        assert listener == {"port": 80, "namespacePolicy": {"from": "All"}}
        # What a user's own Gateway names.
        assert [values["ports"][name]["port"] for name in ("web", "websecure")] == [80, 443]
        values = install({"ingress": {"enabled": True}}).chart_values("traefik")
        assert not values["providers"]["kubernetesGateway"]["enabled"]
        assert not values["gateway"]["enabled"]

    def test_kured_asks_our_command_on_every_node(self, everything: AddonsRun) -> None:
        values = everything.chart_values("kured")
        assert "/readyz" in values["configuration"]["rebootSentinelCommand"]
        # With its default, the chart leaves the command out.
        assert values["configuration"]["useRebootSentinelHostPath"] is False
        assert values["tolerations"] == [{"operator": "Exists"}]

    def test_cinder_csi_is_on_no_node_that_is_no_server(self, default: AddonsRun) -> None:
        plugin = default.chart_values("openstack-cinder-csi")["csi"]["plugin"]["nodePlugin"]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        [term] = plugin["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "openstack-kubernetes/no-server", "operator": "DoesNotExist"}
        ]

    @pytest.mark.parametrize("zoned", [True, False])
    def test_volumes_are_made_in_zones_only_where_cinder_has_those_of_the_nodes(
        self, zoned: bool
    ) -> None:
        csi = install(volume_zones=zoned).chart_values("openstack-cinder-csi")["csi"]
        assert csi["provisioner"]["topology"] == str(zoned).lower()
        assert csi["plugin"]["extraArgs"] == ({} if zoned else "- --with-topology=false")

    def test_new_settings_of_cinder_csi_reach_the_plugin_on_the_nodes(self) -> None:
        def checksum(**settings: object) -> str:
            plugin = install(settings).chart_values("openstack-cinder-csi")["csi"]["plugin"]
            return str(plugin["nodePlugin"]["podAnnotations"]["checksum/cloud-config"])

        changed = {"cloudConfig": {"BlockStorage": {"node-volume-attach-limit": "25"}}}
        assert checksum() == checksum()
        assert checksum(cinderCsi=changed) != checksum()

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

    @pytest.mark.parametrize("controller", ["traefik", "nginx"])
    def test_octavia_lets_in_no_one_but_ingress_cidrs(self, controller: str) -> None:
        ingress = {"enabled": True, "controller": controller}

        def ranges(**addons: object) -> object:
            run = install({"ingress": ingress, **addons})
            if controller == "traefik":
                service = run.chart_values("traefik")["service"]["spec"]
            else:
                service = run.chart_values("nginx-ingress")["controller"]["service"]
            return service.get("loadBalancerSourceRanges")

        assert ranges(loadBalancer="octavia") == MINIMAL["allowedCidrs"]
        # A Service of another type has none: the gateways have security groups.
        assert ranges() is None

    @pytest.mark.parametrize("controller", ["traefik", "nginx"])
    @pytest.mark.parametrize(
        ("workers", "replicas", "kept"), [(1, 2, False), (2, 2, True), (2, 1, False)]
    )
    def test_a_budget_keeps_no_pod_on_the_only_worker(
        self, controller: str, workers: int, replicas: int, kept: bool
    ) -> None:
        ingress = {"enabled": True, "controller": controller, "replicas": replicas}
        run = install({"ingress": ingress}, worker_count=workers)
        if controller == "traefik":
            budget = run.chart_values("traefik")["podDisruptionBudget"]
        else:
            budget = run.chart_values("nginx-ingress")["controller"]["podDisruptionBudget"]
        assert budget == {"enabled": kept, "maxUnavailable": 1}

    def test_nginx_passes_on_headlamps_websockets(self) -> None:
        run = install({"headlamp": {"enabled": True, "host": "dash.example.org"}})
        annotations = run.chart_values("headlamp")["ingress"]["annotations"]
        assert annotations["nginx.org/websocket-services"] == "headlamp"

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
        # They last until someone deletes the job or the pod.
        assert re.fullmatch(ignored, "KubeJobFailed")
        assert re.fullmatch(ignored, "KubePodNotReady")
        # An alert that waits for a reboot must not hold it back.
        for waits in (alerts.REBOOT_OVERDUE, alerts.GATEWAY_REBOOT_OVERDUE, alerts.UPDATES_LATE):
            assert re.fullmatch(ignored, waits)
        assert re.fullmatch(ignored, alerts.STACK_FAILING)
        assert everything.chart_values("kured")["metrics"] == {"create": True}
        assert not re.fullmatch(ignored, "GatewayTookOver")

    @pytest.mark.parametrize(
        ("required", "down", "updating", "reboots"),
        [
            (True, "none", False, True),
            (True, "10.8.0.21", False, False),
            (True, "10.8.0.23", False, False),
            (True, "none", True, False),
            (False, "none", False, False),
        ],
    )
    def test_no_node_reboots_while_a_control_plane_is_not_ready_or_packages_are_updated(
        self, tmp_path: Path, required: bool, down: str, updating: bool, reboots: bool
    ) -> None:
        run = install({"kured": {"enabled": True}}, control_plane_count=3)
        command = run.chart_values("kured")["configuration"]["rebootSentinelCommand"]
        # The chart writes it into YAML as it is.
        assert yaml.safe_load(f"--reboot-sentinel-command={command}") == (
            f"--reboot-sentinel-command={command}"
        )
        asked = tmp_path / "asked"
        program(
            tmp_path / "curl",
            f"#!/bin/sh\nfor url; do :; done; echo $url >>{asked}\n"
            f"[ $url != https://{down}:6443/readyz ]",
        )
        sentinel = tmp_path / "reboot-required"
        if required:
            sentinel.touch()
        command = command.replace("/var/run/reboot-required", str(sentinel))
        words = shlex.split(command.replace("/run/lock/", f"{tmp_path}/"))
        path = f"{tmp_path}:{os.environ['PATH']}"
        with (tmp_path / "openstack-kubernetes-updates").open("w") as lock:
            if updating:
                fcntl.flock(lock, fcntl.LOCK_EX)
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

    def test_namespaces_with_volumes_or_clusters_outlive_their_add_on(
        self, everything: AddonsRun
    ) -> None:
        names = ("monitoring", "logging", "clusters")
        assert everything.retained == {f"demo-addons-{name}" for name in names}

    def test_old_metrics_are_deleted_before_their_volume_is_full(self) -> None:
        run = install({"monitoring": {"enabled": True, "storageSize": "100Gi"}})
        spec = run.chart_values("kube-prometheus-stack")["prometheus"]["prometheusSpec"]
        assert spec["retentionSize"] == "81920MB"

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
        metadata = [each.inputs["metadata"] for each in found]
        labels = sorted(label for each in metadata for label in each.get("labels", ()))
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
