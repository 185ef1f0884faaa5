"""The services' users and endpoints in Keystone."""

from __future__ import annotations

from openstack.connection import Connection

from lab.cloud import secrets
from lab.cloud.bootstrap import admin, identity_of
from lab.cloud.layout import (
    CINDER,
    GLANCE,
    NEUTRON,
    NOVA,
    PLACEMENT,
    REGION,
    SERVICE_USERS,
)

# Service type -> name and address. Cinder is looked up under an old and a new type.
ENDPOINTS = {
    "image": ("glance", GLANCE),
    "placement": ("placement", PLACEMENT),
    "compute": ("nova", f"{NOVA}/v2.1"),
    "network": ("neutron", NEUTRON),
    "volumev3": ("cinderv3", f"{CINDER}/v3/%(project_id)s"),
    "block-storage": ("cinder", f"{CINDER}/v3/%(project_id)s"),
}


def service_users(cloud: Connection, password: str) -> None:
    """One user for each service, with the roles service and admin in the project service."""
    identity = identity_of(cloud)
    project = identity.find_project("service") or identity.create_project(
        name="service", domain_id="default"
    )
    roles = [
        identity.find_role(name) or identity.create_role(name=name) for name in ("service", "admin")
    ]
    for name in SERVICE_USERS:
        user = identity.find_user(name) or identity.create_user(
            name=name, domain_id="default", password=password
        )
        for role in roles:
            identity.assign_project_role_to_user(project, user, role)


def endpoints(cloud: Connection) -> None:
    """The catalogue: every interface has the same address, there is only one network."""
    identity = identity_of(cloud)
    known = {(e.service_id, e.interface) for e in identity.endpoints()}
    for kind, (name, url) in ENDPOINTS.items():
        service = next(iter(identity.services(type=kind)), None) or identity.create_service(
            type=kind, name=name
        )
        for interface in ("public", "internal", "admin"):
            if (service.id, interface) not in known:
                identity.create_endpoint(
                    service_id=service.id, interface=interface, url=url, region_id=REGION
                )


def main() -> None:
    """Fill Keystone."""
    cloud = admin()
    service_users(cloud, secrets.load().service)
    endpoints(cloud)


if __name__ == "__main__":
    main()
