"""Settings of the credential with which the cluster's own programs log in to the cloud."""

from config.base import Settings


class CloudCredential(Settings):
    """The cluster's own cloud credential: an application credential of the user who runs Pulumi."""

    access_rules: bool = False
    """Allow only the requests that the add-ons make. Nova, Neutron, Cinder (and Octavia) must have
    `service_type` in `[keystone_authtoken]`: a service without it refuses every request, and
    volumes and new nodes fail. Ask whoever runs the cloud."""
