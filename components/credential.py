"""The application credential that the cluster's own controllers log in to the cloud with."""

from __future__ import annotations

import pulumi
import pulumi_openstack as openstack

from addons.cloud_conf import Credential
from cloud.endpoint import endpoint


def cloud_credential(cluster_name: str) -> Credential:
    """Create one for this cluster alone, with the roles of the user who runs Pulumi.

    Raises:
        ConfigError: when the OpenStack provider's settings cannot be found or read.
    """
    cloud = endpoint()
    created = openstack.identity.ApplicationCredential(
        cluster_name,
        name=f"{cluster_name}-kubernetes",
        description=f"the Kubernetes cluster {cluster_name}: load balancers and volumes",
        # Its name is unique among those of its user.
        opts=pulumi.ResourceOptions(delete_before_replace=True),
    )
    return Credential(
        auth_url=cloud.auth_url,
        region=cloud.region,
        id=created.id,
        secret=created.secret,
        ca_certificate=cloud.ca_certificate,
    )
