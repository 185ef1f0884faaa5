"""Placement: the inventory of hosts."""

from __future__ import annotations

from lab.cloud.configs.common import Sections, authtoken, database, ini
from lab.cloud.secrets import Secrets


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    sections: Sections = {
        "DEFAULT": {"use_stderr": True},
        "placement_database": database("placement", secrets),
        "api": {"auth_strategy": "keystone"},
        "keystone_authtoken": authtoken("placement", secrets),
    }
    return {"placement/placement.conf": ini(sections)}
