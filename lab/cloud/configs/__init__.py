"""The configuration files of every service, generated into the state folder."""

from __future__ import annotations

from commands.private_file import write_private
from lab.cloud.configs import (
    cinder,
    glance,
    infrastructure,
    keystone,
    neutron,
    nova,
    placement,
)
from lab.cloud.layout import ETC
from lab.cloud.secrets import Secrets
from lab.paths import ensure

SERVICES = (infrastructure, keystone, glance, placement, nova, neutron, cinder)


def write(secrets: Secrets) -> None:
    """Write every file, readable by root only: they contain passwords."""
    for service in SERVICES:
        for name, text in service.files(secrets).items():
            path = ETC / name
            ensure(path.parent)
            write_private(path, text)
