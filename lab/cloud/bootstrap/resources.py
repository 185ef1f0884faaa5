"""The tenant's resources: a project with a user, flavors, the external network, a volume type."""

from __future__ import annotations

from openstack.connection import Connection

from lab.cloud import secrets
from lab.cloud.bootstrap import admin, identity_of
from lab.cloud.configs.cinder import BACKEND
from lab.cloud.layout import (
    API,
    EXTERNAL_CIDR,
    EXTERNAL_NETWORK,
    FLOATING_RANGE,
    PHYSICAL_NETWORK,
    PROJECT_NAME,
    USER_NAME,
)

# Name -> vCPU, MiB, GB. Disks are sparse files: their size costs nothing until it is written.
FLAVORS = {
    "lab.1c1g": (1, 1024, 20),
    "lab.1c2g": (1, 2048, 20),
    "lab.2c2g": (2, 2048, 20),
    "lab.2c3g": (2, 3072, 20),
    "lab.2c4g": (2, 4096, 20),
}


def project(cloud: Connection, password: str) -> None:
    """The tenant that the program is run as."""
    identity = identity_of(cloud)
    tenant = identity.find_project(PROJECT_NAME) or identity.create_project(
        name=PROJECT_NAME, domain_id="default"
    )
    user = identity.find_user(USER_NAME) or identity.create_user(
        name=USER_NAME, domain_id="default", password=password, default_project_id=tenant.id
    )
    for name in ("member", "reader"):
        role = identity.find_role(name, ignore_missing=False)
        identity.assign_project_role_to_user(tenant, user, role)


def flavors(cloud: Connection) -> None:
    """Sizes for gateways, control planes and workers."""
    for name, (vcpus, ram, disk) in FLAVORS.items():
        if not cloud.compute.find_flavor(name):
            cloud.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)


def external_network(cloud: Connection) -> None:
    """The network of the floating IPs; its gateway is the lab itself."""
    network = cloud.network.find_network(EXTERNAL_NETWORK) or cloud.network.create_network(
        name=EXTERNAL_NETWORK,
        is_router_external=True,
        provider_network_type="flat",
        provider_physical_network=PHYSICAL_NETWORK,
    )
    if not network.subnet_ids:
        start, end = FLOATING_RANGE
        cloud.network.create_subnet(
            name=EXTERNAL_NETWORK,
            network_id=network.id,
            ip_version=4,
            cidr=EXTERNAL_CIDR,
            gateway_ip=API,
            is_dhcp_enabled=False,
            allocation_pools=[{"start": start, "end": end}],
        )


def volume_type(cloud: Connection) -> None:
    """The one kind of volume."""
    if not cloud.block_storage.find_type(BACKEND):
        cloud.block_storage.create_type(name=BACKEND, extra_specs={"volume_backend_name": BACKEND})


def main() -> None:
    """Fill the cloud."""
    cloud = admin()
    project(cloud, secrets.load().user)
    flavors(cloud)
    external_network(cloud)
    volume_type(cloud)


if __name__ == "__main__":
    main()
