"""Pulumi's operator: it makes, repairs and destroys a cluster for each `Stack` object."""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.admissionregistration.v1 import (
    MatchResourcesArgs,
    NamedRuleWithOperationsArgs,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpecArgs,
    ValidatingAdmissionPolicySpecArgs,
    ValidationArgs,
)
from pulumi_kubernetes.core.v1 import ServiceAccount
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import ClusterRoleBinding, Role, RoleBinding

import versions
from addons import crds
from addons.chart import Chart
from addons.installer import Installer
from addons.rbac import role_ref, rule, service_account
from addons.scheduled_program import ScheduledProgram
from config import federation
from config.models.addons import Operator

CHART = Chart(
    name="pulumi-kubernetes-operator",
    version=versions.PULUMI_OPERATOR_CHART,
    repository="oci://ghcr.io/pulumi/helm-charts",
)
NAMESPACE = "operator"
# Of the Stacks, with their Secrets and the pods in which Pulumi runs.
CLUSTERS = "clusters"
# The account of those pods.
WORKSPACE = "workspace"

# It gives up after some minutes, and a cloud may be out for longer. The account is not in CLUSTERS,
# where whoever makes pods would have its rights.
_RETRIES = ScheduledProgram(
    module="retry_stacks",
    namespace=NAMESPACE,
    longest_run_seconds=300,
    retries=0,
    # While a Stack fails, so does each run: the chart's alert about failed Jobs waits for longer.
    forget_after_seconds=600,
)
# The name of their CronJob, of which an alert knows.
RETRIES = _RETRIES.name
_RETRY_MINUTES = 10

# It checks with these rights that requests to a workspace come from the operator.
_DELEGATOR = "system:auth-delegator"
_POLICY = "openstack-kubernetes-deletion-protection"
# As the program: protected unless it says otherwise.
_UNPROTECTED = (
    "!(has(oldObject.spec.destroyOnFinalize) && oldObject.spec.destroyOnFinalize)"
    " || has(oldObject.spec.config) && 'deletionProtection' in oldObject.spec.config"
    " && string(oldObject.spec.config.deletionProtection) == 'false'"
)
_REFUSAL = (
    "'its deletion would destroy the cluster ' + oldObject.spec.stack"
    " + ': set spec.config.deletionProtection to false first'"
)


def values(*, monitored: bool, image_registry: str | None) -> dict[str, Any]:
    """Return values by which the operator runs with the least rights on its node."""
    return {
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        # The chart's limits are for a small cluster: the operator holds every Secret in memory.
        "resources": {
            "requests": {"cpu": "20m", "memory": "128Mi"},
            "limits": {"cpu": None, "memory": "512Mi"},
        },
        # The chart gives no rights to check who asks; the network policy says who can.
        "controller": {"metricsSecure": False},
        "serviceMonitor": {"enabled": monitored},
        # It also names, in a variable, the image of the agent in each workspace.
        **({"image": {"registry": image_registry}} if image_registry else {}),
    }


def install(installer: Installer, settings: Operator, *, after: Sequence[pulumi.Resource]) -> None:
    """Install the operator, and the namespace of the Stacks."""
    namespace = installer.namespace(
        NAMESPACE, after=after, security="restricted", admitted=[federation.NAMESPACE]
    )
    clusters = installer.namespace(
        CLUSTERS, after=after, security="restricted", admitted=[NAMESPACE], keep=True
    )
    rights = _workspace_rights(installer, clusters)
    policy = _deletion_protection(installer)
    files = _RETRIES.files(installer, namespace)
    chart = installer.chart(
        CHART,
        namespace=NAMESPACE,
        values=values(
            monitored=installer.monitored, image_registry=installer.settings.image_registry
        ),
        overrides=settings.values,
        after=[*after, namespace, *rights, *policy],
        transforms=[crds.keep, crds.without_descriptions],
    )
    _RETRIES.cron_job(
        installer,
        RETRIES,
        name=RETRIES,
        schedule=f"*/{_RETRY_MINUTES} * * * *",
        after=[chart, files, *_retry_rights(installer, namespace, clusters)],
    )


def _workspace_rights(installer: Installer, namespace: pulumi.Resource) -> list[pulumi.Resource]:
    name = f"{installer.name}-{WORKSPACE}"
    return [
        ServiceAccount(
            name,
            metadata=ObjectMetaArgs(name=WORKSPACE, namespace=CLUSTERS),
            opts=installer.options([namespace]),
        ),
        ClusterRoleBinding(
            name,
            metadata=ObjectMetaArgs(name=f"openstack-kubernetes:{WORKSPACE}"),
            role_ref=role_ref("ClusterRole", _DELEGATOR),
            subjects=[service_account(WORKSPACE, CLUSTERS)],
            opts=installer.options(),
        ),
    ]


def _retry_rights(
    installer: Installer, namespace: pulumi.Resource, clusters: pulumi.Resource
) -> list[pulumi.Resource]:
    """Create rights to change Stacks and to delete pods of workspaces, but not to read Secrets."""
    name = f"{installer.name}-{RETRIES}"
    metadata = ObjectMetaArgs(name=RETRIES, namespace=CLUSTERS)
    return [
        ServiceAccount(
            name,
            metadata=ObjectMetaArgs(name=RETRIES, namespace=NAMESPACE),
            opts=installer.options([namespace]),
        ),
        Role(
            name,
            metadata=metadata,
            rules=[rule("pulumi.com", "stacks", "list", "patch"), rule("", "pods", "delete")],
            opts=installer.options([clusters]),
        ),
        RoleBinding(
            name,
            metadata=metadata,
            role_ref=role_ref("Role", RETRIES),
            subjects=[service_account(RETRIES, NAMESPACE)],
            opts=installer.options([clusters]),
        ),
    ]


def _deletion_protection(installer: Installer) -> list[pulumi.Resource]:
    """Refuse to delete the Stack of a protected cluster, which cannot be taken back.

    Pulumi would only refuse to destroy it, and the Stack could never be used again.
    """
    name = f"{installer.name}-{NAMESPACE}-deletion-protection"
    policy = ValidatingAdmissionPolicy(
        name,
        metadata=ObjectMetaArgs(name=_POLICY),
        spec=ValidatingAdmissionPolicySpecArgs(
            match_constraints=MatchResourcesArgs(
                resource_rules=[
                    NamedRuleWithOperationsArgs(
                        api_groups=["pulumi.com"],
                        api_versions=["*"],
                        operations=["DELETE"],
                        resources=["stacks"],
                    )
                ]
            ),
            validations=[ValidationArgs(expression=_UNPROTECTED, message_expression=_REFUSAL)],
        ),
        opts=installer.options(),
    )
    binding = ValidatingAdmissionPolicyBinding(
        name,
        metadata=ObjectMetaArgs(name=_POLICY),
        spec=ValidatingAdmissionPolicyBindingSpecArgs(
            policy_name=_POLICY,
            validation_actions=["Deny"],
            match_resources=MatchResourcesArgs(
                namespace_selector=LabelSelectorArgs(
                    match_labels={"kubernetes.io/metadata.name": CLUSTERS}
                )
            ),
        ),
        opts=installer.options([policy]),
    )
    return [policy, binding]
