"""The rights of the add-ons' pods, and the network policies around them."""

from __future__ import annotations

from typing import Any

import pulumi

from addons.monitoring import narrow_roles
from tests.unit.addons.install import CHART, OPTIONAL, AddonsRun, install


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
