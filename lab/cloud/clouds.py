"""clouds.yaml, with which clients find the cloud and log in."""

from __future__ import annotations

import yaml

from commands.private_file import write_private
from lab.cloud.layout import (
    ADMIN_CLOUD,
    CLOUD,
    CLOUDS_YAML,
    KEYSTONE,
    PROJECT_NAME,
    REGION,
    USER_NAME,
)
from lab.cloud.secrets import Secrets


def write(secrets: Secrets) -> None:
    """Write the file with the tenant's entry and the administrator's."""

    def entry(user: str, password: str, project: str) -> dict[str, object]:
        return {
            "auth": {
                "auth_url": f"{KEYSTONE}/v3",
                "username": user,
                "password": password,
                "project_name": project,
                "user_domain_name": "Default",
                "project_domain_name": "Default",
            },
            "region_name": REGION,
            "identity_api_version": "3",
        }

    text = yaml.safe_dump(
        {
            "clouds": {
                CLOUD: entry(USER_NAME, secrets.user, PROJECT_NAME),
                ADMIN_CLOUD: entry("admin", secrets.admin, "admin"),
            },
        }
    )
    write_private(CLOUDS_YAML, text)
