"""The application credential that the cluster's own programs use at the cloud."""

from __future__ import annotations

import pulumi
import pulumi_openstack as openstack

from addons.cloud_conf import Credential
from cloud.endpoint import Endpoint


def cloud_credential(cluster_name: str, endpoint: Endpoint) -> Credential:
    """Make one for this cluster alone, with the roles of whoever runs Pulumi."""
    made = openstack.identity.ApplicationCredential(
        cluster_name,
        name=f"{cluster_name}-kubernetes",
        description=f"the Kubernetes cluster {cluster_name}: load balancers and volumes",
        # Its name is unique among those of its user.
        opts=pulumi.ResourceOptions(delete_before_replace=True),
    )
    return Credential(
        auth_url=endpoint.auth_url,
        region=endpoint.region,
        id=made.id,
        secret=made.secret,
        ca_certificate=endpoint.ca_certificate,
    )
