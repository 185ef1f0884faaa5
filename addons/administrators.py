"""The rights of the people who administer the cluster."""

from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import ClusterRoleBinding

from addons import rbac
from addons.installer import Installer


def install(installer: Installer, *, group: str) -> ClusterRoleBinding:
    """Give this group every right; one that had them before has none afterwards."""
    return ClusterRoleBinding(
        f"{installer.name}-administrators",
        metadata=ObjectMetaArgs(name="openstack-kubernetes:administrators"),
        role_ref=rbac.role_ref("ClusterRole", "cluster-admin"),
        subjects=[rbac.group(group)],
        opts=installer.options(),
    )
