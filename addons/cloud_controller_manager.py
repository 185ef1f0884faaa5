"""The OpenStack cloud controller manager: addresses and zones of nodes, load balancers.

A module of our own: the official chart needs another chart from a repository that is being
wound down.
"""

from collections.abc import Mapping

import pulumi
from pulumi_kubernetes.apps.v1 import (
    DaemonSet,
    DaemonSetSpecArgs,
    DaemonSetUpdateStrategyArgs,
)
from pulumi_kubernetes.core.v1 import (
    CapabilitiesArgs,
    ContainerArgs,
    HTTPGetActionArgs,
    PodSecurityContextArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ProbeArgs,
    ResourceRequirementsArgs,
    SeccompProfileArgs,
    SecretVolumeSourceArgs,
    SecurityContextArgs,
    ServiceAccount,
    TolerationArgs,
    VolumeArgs,
    VolumeMountArgs,
)
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRuleArgs,
    Role,
    RoleBinding,
    RoleRefArgs,
    SubjectArgs,
)

import versions
from addons import cloud_conf
from addons.cloud_conf import Credential
from addons.install import Installer
from config.models.addons import CloudControllerManager

NAME = "openstack-cloud-controller-manager"
NAMESPACE = "kube-system"
IMAGE = f"registry.k8s.io/provider-os/{NAME}:{versions.CLOUD_CONTROLLER_MANAGER}"

_PORT = 10258
_USER = 65532
_LABELS = {"app.kubernetes.io/name": NAME}


def install(
    installer: Installer,
    settings: CloudControllerManager,
    *,
    cluster_name: str,
    credential: Credential,
    octavia: Mapping[str, pulumi.Input[str]] | None,
) -> pulumi.Resource:
    """Install it on every control plane; one of them leads.

    Args:
        installer: makes the objects.
        settings: what the user wants different.
        cluster_name: marks the load balancers in the cloud.
        credential: how it logs in there.
        octavia: options for load balancers; None where Services get none.

    Returns:
        What is there when nodes are initialised.
    """
    config = cloud_conf.secret(
        installer,
        NAME,
        {
            **credential.sections(),
            # The cluster is IPv4 only: other addresses of a server must not become a node's.
            "Networking": {"ipv6-support-disabled": "true"},
            "LoadBalancer": {"enabled": "true" if octavia is not None else "false"}
            | dict(octavia or {}),
        },
        settings.cloud_config,
        credential.ca_certificate,
    )
    account = ServiceAccount(
        f"{installer.name}-{NAME}",
        metadata=ObjectMetaArgs(name=NAME, namespace=NAMESPACE),
        opts=installer.options(),
    )
    rights = _rights(installer, balances=octavia is not None)
    arguments = _arguments(cluster_name, settings, balances=octavia is not None)
    return DaemonSet(
        f"{installer.name}-{NAME}",
        metadata=ObjectMetaArgs(name=NAME, namespace=NAMESPACE, labels=_LABELS),
        spec=DaemonSetSpecArgs(
            selector=LabelSelectorArgs(match_labels=_LABELS),
            update_strategy=DaemonSetUpdateStrategyArgs(type="RollingUpdate"),
            template=PodTemplateSpecArgs(
                metadata=ObjectMetaArgs(
                    labels=_LABELS,
                    annotations={"checksum/cloud-config": cloud_conf.checksum(config)},
                ),
                spec=_pod(settings.image or IMAGE, arguments),
            ),
        ),
        opts=installer.options([config, account, *rights]),
    )


def _rights(installer: Installer, *, balances: bool) -> list[pulumi.Resource]:
    """Only what the controllers that run need."""
    name = f"{installer.name}-{NAME}"
    subjects = [SubjectArgs(kind="ServiceAccount", name=NAME, namespace=NAMESPACE)]
    kube_system = ObjectMetaArgs(name=NAME, namespace=NAMESPACE)
    return [
        ClusterRole(
            name,
            metadata=ObjectMetaArgs(name=NAME),
            rules=_rules(balances=balances),
            opts=installer.options(),
        ),
        ClusterRoleBinding(
            name,
            metadata=ObjectMetaArgs(name=NAME),
            role_ref=_ref("ClusterRole", NAME),
            subjects=subjects,
            opts=installer.options(),
        ),
        Role(
            name,
            metadata=kube_system,
            # The leader's lock.
            rules=[_rule("coordination.k8s.io", "leases", "get", "create", "update")],
            opts=installer.options(),
        ),
        RoleBinding(
            name,
            metadata=kube_system,
            role_ref=_ref("Role", NAME),
            subjects=subjects,
            opts=installer.options(),
        ),
        # How the API server tells who asks, for those who ask for its metrics.
        RoleBinding(
            f"{name}-authentication",
            metadata=ObjectMetaArgs(name=f"{NAME}-authentication", namespace=NAMESPACE),
            role_ref=_ref("Role", "extension-apiserver-authentication-reader"),
            subjects=subjects,
            opts=installer.options(),
        ),
    ]


def _rules(*, balances: bool) -> list[PolicyRuleArgs]:
    rules = [
        _rule("", "nodes", "get", "list", "watch", "update", "patch", "delete"),
        _rule("", "nodes/status", "patch"),
        _rule("", "events", "create", "patch", "update"),
    ]
    if balances:
        rules += [
            _rule("", "services", "get", "list", "watch", "patch"),
            _rule("", "services/status", "patch", "update"),
        ]
    return rules


def _rule(group: str, resource: str, *verbs: str) -> PolicyRuleArgs:
    return PolicyRuleArgs(api_groups=[group], resources=[resource], verbs=list(verbs))


def _ref(kind: str, name: str) -> RoleRefArgs:
    return RoleRefArgs(api_group="rbac.authorization.k8s.io", kind=kind, name=name)


def _arguments(cluster_name: str, settings: CloudControllerManager, *, balances: bool) -> list[str]:
    controllers = ["cloud-node-controller", "cloud-node-lifecycle-controller"]
    if balances:
        controllers.append("service-lb-controller")
    return [
        "--cloud-provider=openstack",
        f"--cloud-config={cloud_conf.MOUNT}/{cloud_conf.FILE}",
        f"--cluster-name={cluster_name}",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=false",
        "--bind-address=127.0.0.1",
        "--v=1",
        *settings.extra_args,
    ]


def _pod(image: str, arguments: list[str]) -> PodSpecArgs:
    healthz = HTTPGetActionArgs(host="127.0.0.1", path="/healthz", port=_PORT, scheme="HTTPS")
    return PodSpecArgs(
        service_account_name=NAME,
        priority_class_name="system-cluster-critical",
        # It runs before there is a pod network, a DNS, or a node that is initialised.
        host_network=True,
        dns_policy="Default",
        tolerations=[TolerationArgs(operator="Exists")],
        node_selector={"node-role.kubernetes.io/control-plane": ""},
        security_context=PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=_USER,
            run_as_group=_USER,
            fs_group=_USER,
            seccomp_profile=SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            ContainerArgs(
                name=NAME,
                image=image,
                command=[f"/bin/{NAME}"],
                args=arguments,
                resources=ResourceRequirementsArgs(requests={"cpu": "50m", "memory": "64Mi"}),
                security_context=SecurityContextArgs(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=CapabilitiesArgs(drop=["ALL"]),
                ),
                readiness_probe=ProbeArgs(http_get=healthz, timeout_seconds=5),
                liveness_probe=ProbeArgs(http_get=healthz, timeout_seconds=5, failure_threshold=6),
                volume_mounts=[
                    VolumeMountArgs(name="config", mount_path=cloud_conf.MOUNT, read_only=True)
                ],
            )
        ],
        volumes=[
            VolumeArgs(
                name="config",
                secret=SecretVolumeSourceArgs(secret_name=NAME, default_mode=0o440),
            )
        ],
    )
