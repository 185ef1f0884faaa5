"""The application credential that the cluster's own controllers log in to the cloud with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pulumi
import pulumi_openstack as openstack

from addons import cinder_csi, cloud_controller_manager
from addons.cloud_conf import CloudConfig, Credential
from cloud.endpoint import endpoint
from components.access_rules import AccessRule, access_rules
from components.context import Context
from config.models.cluster import Cluster


def _cloud_credential(context: Context) -> Credential:
    """Create one for this cluster alone, with the roles of the user who runs Pulumi.

    Raises:
        ConfigError: when the OpenStack provider's settings cannot be found or read.
    """
    cluster, cloud = context.cluster, endpoint()
    rules = (
        access_rules(load_balancers=cluster.addons.octavia)
        if cluster.cloud_credential.access_rules
        else []
    )
    created = openstack.identity.ApplicationCredential(
        cluster.cluster_name,
        name=pulumi.Output.concat(context.pki.cluster_id, _suffix(cluster, rules)),
        description=f"the Kubernetes cluster {cluster.cluster_name}: load balancers and volumes",
        access_rules=[
            openstack.identity.ApplicationCredentialAccessRuleArgs(
                service=rule.service, method=rule.method, path=rule.path
            )
            for rule in rules
        ]
        or None,
    )
    return Credential(
        auth_url=cloud.auth_url,
        region=cloud.region,
        id=created.id,
        secret=created.secret,
        ca_certificate=cloud.ca_certificate,
        insecure=cloud.insecure,
    )


def _suffix(cluster: Cluster, rules: Sequence[AccessRule]) -> str:
    """The end of a name that changes with all that replaces the credential.

    It must be unique among those of its user, who may have clusters of one name in several
    projects, and the old one must live until no pod uses it.
    """
    parts = ["", "kubernetes"]
    if cluster.rotation.cloud_credential > 1:
        parts.append(str(cluster.rotation.cloud_credential))
    if rules:
        parts.append(hashlib.sha256(repr(rules).encode()).hexdigest()[:8])
    return "-".join(parts)


def cloud_configs(context: Context) -> dict[str, CloudConfig]:
    """Return the configuration of each enabled program that logs in, by the program's name.

    They share a credential, which is not created where none of them is enabled.
    """
    if not context.cluster.addons.log_in_to_cloud:
        return {}
    return configs_with(context, _cloud_credential(context))


def configs_with(context: Context, credential: Credential) -> dict[str, CloudConfig]:
    """Return these configurations, with a given credential."""
    settings = context.cluster.addons
    configs: dict[str, CloudConfig] = {}
    if settings.cloud_controller_manager.enabled:
        configs[cloud_controller_manager.NAME] = cloud_controller_manager.cloud_config(
            settings.cloud_controller_manager, credential, _octavia(context)
        )
    if settings.cinder_csi.enabled:
        configs[cinder_csi.CHART.name] = cinder_csi.cloud_config(settings.cinder_csi, credential)
    return configs


def _octavia(context: Context) -> Mapping[str, pulumi.Input[str]] | None:
    if not context.cluster.addons.octavia:
        return None
    return {
        "subnet-id": context.network.subnet_id,
        "floating-network-id": context.network.external_network_id,
        # Its health checks are what makes externalTrafficPolicy Local work.
        "create-monitor": "true",
        # The cluster's own rules let load balancers in.
        "manage-security-groups": "false",
    }
