"""Pulumi's operator as an add-on: where the Stacks are, who may do what, and what stays."""

from __future__ import annotations

from typing import Any

import pytest

from addons import operator
from addons.monitoring import alerts
from addons.programs import retry_stacks
from commands.fleet import add, stack_objects
from tests.unit.addons.install import CHART, OPERATOR, AddonsRun, install

NAMESPACE = "v1:Namespace"
BINDING = "v1:ClusterRoleBinding"
PROTECTION = "demo-addons-operator-deletion-protection"


@pytest.fixture(scope="module")
def installed() -> AddonsRun:
    return install(OPERATOR)


def spec(run: AddonsRun, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = run.one(f"v1:{kind}", PROTECTION).inputs["spec"]
    return found


def test_both_namespaces_take_restricted_pods_only(installed: AddonsRun) -> None:
    for name in ("operator", "clusters"):
        namespace = installed.one(NAMESPACE, f"demo-addons-{name}")
        labels = namespace.inputs["metadata"]["labels"]
        assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_a_workspace_may_only_check_who_asks_it(installed: AddonsRun) -> None:
    account = installed.one("v1:ServiceAccount", "demo-addons-workspace").inputs["metadata"]
    assert (account["namespace"], account["name"]) == ("clusters", "workspace")
    bindings = [
        each.inputs["roleRef"]["name"]
        for each in installed.all(BINDING).values()
        if each.inputs["subjects"][0]["name"] == "workspace"
    ]
    assert bindings == ["system:auth-delegator"]


def test_who_asks_for_another_try_reads_no_secret(installed: AddonsRun) -> None:
    name = "demo-addons-retry-stacks"
    role = installed.one("v1:Role", name).inputs
    # The account is where no one but the operator makes pods.
    subject = installed.one("v1:RoleBinding", name).inputs["subjects"][0]
    assert (role["metadata"]["namespace"], subject["namespace"]) == ("clusters", "operator")
    rights = {rule["resources"][0]: set(rule["verbs"]) for rule in role["rules"]}
    assert rights == {"stacks": {"list", "patch"}, "pods": {"delete"}}
    assert retry_stacks.NAMESPACE == operator.CLUSTERS


def test_an_alert_fires_when_no_try_has_helped_for_an_hour(installed: AddonsRun) -> None:
    job = installed.one(":CronJob", "demo-addons-retry-stacks")
    assert installed.waits_for(job, installed.one("v1:Role", "demo-addons-retry-stacks"))
    run = install({**OPERATOR, "monitoring": {"enabled": True}})
    [rules] = [e for e in run.resources.values() if e.type.endswith(":PrometheusRule")]
    [group] = [g for g in rules.inputs["spec"]["groups"] if g["name"].endswith("-stacks")]
    [alert] = group["rules"]
    metadata = job.inputs["metadata"]
    assert alert["alert"] == alerts.STACK_FAILING
    of_job = f'{{namespace="{metadata["namespace"]}",cronjob="{metadata["name"]}"}}'
    assert alert["expr"].count(of_job) == 2


def test_the_operator_starts_when_stacks_are_protected(installed: AddonsRun) -> None:
    chart = installed.one(CHART, "demo-addons-pulumi-kubernetes-operator")
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert installed.waits_for(chart, installed.one(f"v1:{kind}", PROTECTION))
    binding = spec(installed, "ValidatingAdmissionPolicyBinding")
    assert binding["validationActions"] == ["Deny"]
    selector = binding["matchResources"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": "clusters"}


def test_it_is_watched_only_with_monitoring(installed: AddonsRun) -> None:
    both = install({**OPERATOR, "monitoring": {"enabled": True}})
    for run, monitored in ((installed, False), (both, True)):
        values = run.chart_values("pulumi-kubernetes-operator")
        assert values["serviceMonitor"] == {"enabled": monitored}
    chart = both.one(CHART, "demo-addons-pulumi-kubernetes-operator")
    assert both.waits_for(chart, both.one(CHART, "demo-addons-kube-prometheus-stack"))


def test_the_fleets_command_knows_its_names() -> None:
    assert (operator.CLUSTERS, operator.WORKSPACE) == (stack_objects.NAMESPACE, add.ACCOUNT)
