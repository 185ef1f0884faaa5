"""The contents of a fresh cloud: jobs that run inside the lab, each safe to run again."""

from __future__ import annotations

from openstack.config import OpenStackConfig
from openstack.connection import Connection
from openstack.identity.v3._proxy import Proxy

from lab.cloud.layout import ADMIN_CLOUD, CLOUDS_YAML


def admin() -> Connection:
    """A connection as the cloud's administrator."""
    config = OpenStackConfig(config_files=[str(CLOUDS_YAML)])
    return Connection(config=config.get_one(ADMIN_CLOUD))


def identity_of(cloud: Connection) -> Proxy:
    """Keystone's current API; the SDK's types leave open which of two it is."""
    if not isinstance(cloud.identity, Proxy):
        raise TypeError("the cloud offers Keystone's second API only")
    return cloud.identity
