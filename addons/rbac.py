"""Short forms of the arguments that roles and their bindings are made of."""

from pulumi_kubernetes.rbac.v1 import PolicyRuleArgs, RoleRefArgs, SubjectArgs

_API_GROUP = "rbac.authorization.k8s.io"


def rule(group: str, resource: str, *verbs: str) -> PolicyRuleArgs:
    """Return a rule that allows these verbs on one kind of resource."""
    return PolicyRuleArgs(api_groups=[group], resources=[resource], verbs=list(verbs))


def role_ref(kind: str, name: str) -> RoleRefArgs:
    """Return a reference to a Role or a ClusterRole."""
    return RoleRefArgs(api_group=_API_GROUP, kind=kind, name=name)


def service_account(name: str, namespace: str) -> SubjectArgs:
    """Return a service account as the subject of a binding."""
    return SubjectArgs(kind="ServiceAccount", name=name, namespace=namespace)


def group(name: str) -> SubjectArgs:
    """Return a group of users as the subject of a binding."""
    return SubjectArgs(api_group=_API_GROUP, kind="Group", name=name)
