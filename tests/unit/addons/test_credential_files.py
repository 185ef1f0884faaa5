"""The cloud credential: files of the two programs that log in, and of no one else."""

from __future__ import annotations

from typing import Any

import pulumi

from addons import cinder_csi, cloud_conf, cloud_controller_manager
from addons.cloud_conf import CloudConfig, Credential
from tests.unit.addons.install import CCM, CREDENTIAL_SECRET, DAEMON_SET, SECRET, AddonsRun, install
from tests.unit.engine import CLUSTER_ID

LOGINS = (cloud_controller_manager.NAME, cinder_csi.CHART.name)


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


def test_a_cloud_whose_certificate_pulumi_does_not_verify_is_not_verified_in_the_cluster() -> None:
    for insecure, options in ((True, {"tls-insecure": "true"}), (False, {})):
        credential = Credential(auth_url="u", region="r", id="i", secret="s", insecure=insecure)
        written = credential.sections()["Global"]
        assert {key: written[key] for key in written if "tls" in key} == options


def test_a_line_break_in_cloud_conf_stays_inside_its_value() -> None:
    assert cloud_conf.text({"A": {"k": "x\ny"}}, {"A": {"l": "z"}, "B": {"m": ""}}) == (
        '[A]\nk = "x\\ny"\nl = "z"\n[B]\nm = ""\n'
    )
