"""A Keystone project and user for one test: everything left in it comes from that test."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import openstack
import yaml
from keystoneauth1.exceptions import ClientException

from commands.private_file import write_private
from lab.cloud import bootstrap
from lab.cloud.layout import KEYSTONE, REGION

ROLES = ("member", "reader")


class Tenant:
    """The project; its entry in the `clouds.yaml` that it writes has the same name."""

    def __init__(self, folder: Path) -> None:
        # Any: the SDK's types name every version of every API at once.
        self._admin: Any = bootstrap.admin()
        self.name = f"test-{secrets.token_hex(3)}"
        password = secrets.token_urlsafe(16)
        identity = bootstrap.identity_of(self._admin)
        self._project = identity.create_project(name=self.name, domain_id="default")
        self._user = identity.create_user(name=self.name, domain_id="default", password=password)
        for name in ROLES:
            role = identity.find_role(name, ignore_missing=False)
            identity.assign_project_role_to_user(self._project, self._user, role)
        self.clouds_yaml = folder / "clouds.yaml"
        self.cloud: Any = self._connect(self.clouds_yaml, {
            "username": self.name, "password": password, "project_name": self.name,
            "user_domain_name": "Default", "project_domain_name": "Default",
        })  # fmt: skip

    def _connect(
        self, file: Path, auth: dict[str, str], **more: str
    ) -> openstack.connection.Connection:
        """Log in with a file of its own: the environment's cloud must not be mixed in."""
        auth = {"auth_url": f"{KEYSTONE}/v3", **auth}
        entry = {"auth": auth, "region_name": REGION, "identity_api_version": "3", **more}
        write_private(file, yaml.safe_dump({"clouds": {self.name: entry}}))
        config = openstack.config.OpenStackConfig(config_files=[str(file)], load_envvars=False)
        return openstack.connection.Connection(config=config.get_one(self.name))

    def accepts(self, credential_id: str, credential_secret: str) -> bool:
        """True if an application credential logs in to this project."""
        auth = {
            "application_credential_id": credential_id,
            "application_credential_secret": credential_secret,
        }
        file = self.clouds_yaml.with_name("credential.yaml")
        cloud: Any = self._connect(file, auth, auth_type="v3applicationcredential")
        try:
            return bool(cloud.current_project_id == self._project.id)
        except (ClientException, openstack.exceptions.SDKException):
            return False

    def left(self) -> dict[str, list[str]]:
        """Kind -> names of everything in the project."""
        cloud, own = self.cloud, {"project_id": self._project.id}
        kinds = {
            "server": cloud.compute.servers(),
            "server group": cloud.compute.server_groups(),
            "keypair": cloud.compute.keypairs(),
            "volume": cloud.block_storage.volumes(),
            "port": cloud.network.ports(**own),
            "router": cloud.network.routers(**own),
            "network": cloud.network.networks(**own),
            "floating IP": cloud.network.ips(**own),
            "security group": (
                # Every project has this one.
                g for g in cloud.network.security_groups(**own) if g.name != "default"
            ),
            "application credential": cloud.identity.application_credentials(self._user.id),
        }  # fmt: skip
        found = {kind: [f"{each.name or each.id}" for each in all_] for kind, all_ in kinds.items()}
        return {kind: names for kind, names in found.items() if names}

    def close(self) -> None:
        """Delete user and project."""
        identity, network = self._admin.identity, self._admin.network
        identity.delete_user(self._user)
        identity.delete_project(self._project)
        for group in network.security_groups(project_id=self._project.id):
            network.delete_security_group(group)
