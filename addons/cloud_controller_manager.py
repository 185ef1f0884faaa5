"""The OpenStack cloud controller manager: addresses and zones of nodes, and load balancers.

No chart is used: the official one needs another chart from a repository that is being wound down.
"""

from collections.abc import Mapping

import pulumi
from pulumi_kubernetes.apps.v1 import (
    DaemonSet,
    DaemonSetSpecArgs,
    DaemonSetUpdateStrategyArgs,
)
from pulumi_kubernetes.core.v1 import (
    ContainerArgs,
    HostPathVolumeSourceArgs,
    HTTPGetActionArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ProbeArgs,
    ResourceRequirementsArgs,
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
)

import versions
from addons import cloud_conf
from addons.cloud_conf import CloudConfig, Credential
from addons.installer import Installer
from addons.rbac import role_ref, rule, service_account
from addons.scheduling import CONTROL_PLANE_SELECTOR
from addons.unprivileged import container_security, pod_security
from config.models.addons import CloudControllerManager

NAME = "openstack-cloud-controller-manager"
NAMESPACE = "kube-system"
IMAGE = f"registry.k8s.io/provider-os/{NAME}:{versions.CLOUD_CONTROLLER_MANAGER}"

_HEALTH_PORT = 10258
_LABELS = {"app.kubernetes.io/name": NAME}


def cloud_config(
    settings: CloudControllerManager,
    credential: Credential,
    octavia: Mapping[str, pulumi.Input[str]] | None,
) -> CloudConfig:
    """Return its cloud.conf.

    Args:
        settings: what the user wants to be different.
        credential: the login to the cloud.
        octavia: options for load balancers; None if Services get none.
    """
    return CloudConfig(
        NAME,
        credential,
        settings.cloud_config,
        {
            # The cluster is IPv4 only: IPv6 addresses of a server must not become a node's.
            "Networking": {"ipv6-support-disabled": "true"},
            "LoadBalancer": {"enabled": "true" if octavia is not None else "false"}
            | dict(octavia or {}),
        },
    )


def install(
    installer: Installer,
    settings: CloudControllerManager,
    *,
    cluster_id: pulumi.Input[str],
    config: CloudConfig,
) -> pulumi.Resource:
    """Install it on every control plane; one of the pods leads.

    Args:
        installer: creates the objects.
        settings: what the user wants to be different.
        cluster_id: marks the load balancers in the cloud.
        config: its cloud.conf, which the control planes have.

    Returns:
        The resource that exists when it can initialize nodes.
    """
    load_balancers = installer.settings.octavia
    account = ServiceAccount(
        f"{installer.name}-{NAME}",
        metadata=ObjectMetaArgs(name=NAME, namespace=NAMESPACE),
        opts=installer.options(),
    )
    rights = _rights(installer, load_balancers=load_balancers)
    arguments = _arguments(cluster_id, settings, load_balancers=load_balancers)
    return DaemonSet(
        f"{installer.name}-{NAME}",
        metadata=ObjectMetaArgs(name=NAME, namespace=NAMESPACE, labels=_LABELS),
        spec=DaemonSetSpecArgs(
            selector=LabelSelectorArgs(match_labels=_LABELS),
            update_strategy=DaemonSetUpdateStrategyArgs(type="RollingUpdate"),
            template=PodTemplateSpecArgs(
                metadata=ObjectMetaArgs(
                    labels=_LABELS,
                    annotations={"checksum/cloud-config": config.checksum},
                ),
                spec=_pod(settings.image or IMAGE, arguments, config),
            ),
        ),
        opts=installer.options([account, *rights]),
    )


def _rights(installer: Installer, *, load_balancers: bool) -> list[pulumi.Resource]:
    """Create only the rights that the enabled controllers need."""
    name = f"{installer.name}-{NAME}"
    subjects = [service_account(NAME, NAMESPACE)]
    kube_system = ObjectMetaArgs(name=NAME, namespace=NAMESPACE)
    return [
        ClusterRole(
            name,
            metadata=ObjectMetaArgs(name=NAME),
            rules=_rules(load_balancers=load_balancers),
            opts=installer.options(),
        ),
        ClusterRoleBinding(
            name,
            metadata=ObjectMetaArgs(name=NAME),
            role_ref=role_ref("ClusterRole", NAME),
            subjects=subjects,
            opts=installer.options(),
        ),
        Role(
            name,
            metadata=kube_system,
            # The lock of the leader.
            rules=[rule("coordination.k8s.io", "leases", "get", "create", "update")],
            opts=installer.options(),
        ),
        RoleBinding(
            name,
            metadata=kube_system,
            role_ref=role_ref("Role", NAME),
            subjects=subjects,
            opts=installer.options(),
        ),
        # Lets it authenticate clients that ask for its metrics.
        RoleBinding(
            f"{name}-authentication",
            metadata=ObjectMetaArgs(name=f"{NAME}-authentication", namespace=NAMESPACE),
            role_ref=role_ref("Role", "extension-apiserver-authentication-reader"),
            subjects=subjects,
            opts=installer.options(),
        ),
    ]


def _rules(*, load_balancers: bool) -> list[PolicyRuleArgs]:
    rules = [
        rule("", "nodes", "get", "list", "watch", "update", "patch", "delete"),
        rule("", "nodes/status", "patch"),
        rule("", "events", "create", "patch", "update"),
    ]
    if load_balancers:
        rules += [
            rule("", "services", "get", "list", "watch", "patch"),
            rule("", "services/status", "patch", "update"),
        ]
    return rules


def _arguments(
    cluster_id: pulumi.Input[str], settings: CloudControllerManager, *, load_balancers: bool
) -> list[pulumi.Input[str]]:
    controllers = ["cloud-node-controller", "cloud-node-lifecycle-controller"]
    if load_balancers:
        controllers.append("service-lb-controller")
    return [
        "--cloud-provider=openstack",
        f"--cloud-config={cloud_conf.MOUNT}/{cloud_conf.FILE}",
        pulumi.Output.concat("--cluster-name=", cluster_id),
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=false",
        "--bind-address=127.0.0.1",
        "--v=1",
        *settings.extra_args,
    ]


def _pod(image: str, arguments: list[pulumi.Input[str]], config: CloudConfig) -> PodSpecArgs:
    healthz = HTTPGetActionArgs(
        host="127.0.0.1", path="/healthz", port=_HEALTH_PORT, scheme="HTTPS"
    )
    return PodSpecArgs(
        service_account_name=NAME,
        priority_class_name="system-cluster-critical",
        # It starts before there is a pod network, DNS, or an initialized node.
        host_network=True,
        dns_policy="Default",
        tolerations=[TolerationArgs(operator="Exists")],
        node_selector=CONTROL_PLANE_SELECTOR,
        security_context=pod_security(),
        containers=[
            ContainerArgs(
                name=NAME,
                image=image,
                command=[f"/bin/{NAME}"],
                args=arguments,
                resources=ResourceRequirementsArgs(requests={"cpu": "50m", "memory": "64Mi"}),
                security_context=container_security(),
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
                host_path=HostPathVolumeSourceArgs(path=config.host_path, type="Directory"),
            )
        ],
    )
