"""Narrower rights for the chart's programs: by default, two of them may read every Secret."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import Role, RoleBinding

from addons.installer import Installer
from addons.rbac import role_ref, rule, service_account

OPERATOR = "kube-prometheus-stack-operator"
_CLUSTER_ROLE = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
# What the chart's ClusterRoles lose. A pod may mount any Secret of its namespace, so whoever makes
# StatefulSets anywhere reads Secrets everywhere.
_TOO_WIDE: Mapping[str, frozenset[str]] = {
    OPERATOR: frozenset({"secrets", "configmaps", "statefulsets", "pods"}),
    "kube-prometheus-stack-grafana-clusterrole": frozenset({"secrets"}),
}


def operator(
    installer: Installer, namespace: str, *, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Give the operator in its own namespace what `narrow` takes from it everywhere."""
    name = f"{installer.name}-{OPERATOR}"
    metadata = ObjectMetaArgs(name=OPERATOR, namespace=namespace)
    return [
        Role(
            name,
            metadata=metadata,
            rules=[
                rule("", "secrets", "*"),
                rule("", "configmaps", "*"),
                rule("", "pods", "list", "delete"),
                rule("apps", "statefulsets", "*"),
            ],
            opts=installer.options(after),
        ),
        RoleBinding(
            name,
            metadata=metadata,
            role_ref=role_ref("Role", OPERATOR),
            subjects=[service_account(OPERATOR, namespace)],
            opts=installer.options(after),
        ),
    ]


def narrow(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Take from a ClusterRole of the chart what its program needs nowhere, or not everywhere."""
    if args.type_ != _CLUSTER_ROLE:
        return None
    metadata: Any = args.props["metadata"]
    lost = _TOO_WIDE.get(metadata["name"])
    if lost is None:
        return None
    rules: Any = args.props["rules"]
    left = [
        {**each, "resources": [name for name in each.get("resources", ()) if name not in lost]}
        for each in rules
    ]
    kept = [each for each in left if each["resources"] or "nonResourceURLs" in each]
    return pulumi.ResourceTransformResult(props={**args.props, "rules": kept}, opts=args.opts)
