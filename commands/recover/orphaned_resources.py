"""Resources that a killed run created but never recorded, found by what it had requested.

They are deleted, and the next run creates them again. Only one of them can depend on another: what
needs one is created after that is in the state or, without checkpoints, by the same run.

Another stack may have a cluster of the same name in the project. Neutron refuses to delete its
networks, routers and security groups, which are in use. What a service would delete all the same is
told apart: by the cluster's mark, its security groups, its members or its addresses.
"""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from openstack.exceptions import NotFoundException

from cloud import marks

if TYPE_CHECKING:
    from openstack.connection import Connection

# A resource's inputs, as the state holds them.
Inputs = Mapping[str, Any]
# What a preview has in place of a value that it does not know.
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# Seconds for Nova to delete a server; only then is its port free again.
_SERVER_SECONDS = 300


@dataclass(frozen=True)
class OrphanedResource:
    """A resource in the cloud that the state does not know; `id` as the state would hold it."""

    kind: str
    name: str
    id: str
    delete: Callable[[], object]
    created: datetime | None = None
    """None for kinds whose time the cloud does not tell."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.id})"


def find(
    cloud: Connection, kind: str, inputs: Inputs, known: Iterable[str]
) -> list[OrphanedResource]:
    """Resources that match `inputs` and whose id is not among `known`.

    A kind that is not OpenStack's has none, nor has one whose place, such as its network, is not
    known yet, or gone.

    Args:
        cloud: a connection to the project of the cluster.
        kind: the resource's type in Pulumi.
        inputs: what the killed run had requested.
        known: ids of this kind that the state holds.
    """
    finder = FINDERS.get(kind)
    if finder is None:
        return []
    ids = set(known)
    try:
        return [orphan for orphan in finder(cloud, _Known(inputs)) if orphan.id not in ids]
    except (_UnknownError, NotFoundException):
        return []


class _UnknownError(Exception):
    """A preview does not know this value."""


class _Known(UserDict[str, Any]):
    """Inputs, some of which a preview may not know: they raise an `_UnknownError`."""

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401
        value = super().__getitem__(key)
        if _UNKNOWN in json.dumps(value):
            raise _UnknownError
        return value


def _orphaned(
    kind: str, found: Iterable[Any], delete: Callable[[Any], object], *, called: str = "name"
) -> list[OrphanedResource]:
    return [
        OrphanedResource(
            kind, getattr(each, called) or "", each.id, partial(delete, each), _created(each)
        )
        for each in found
    ]


def _created(found: Any) -> datetime | None:  # noqa: ANN401
    text = getattr(found, "created_at", None)
    if not isinstance(text, str):
        return None
    time = datetime.fromisoformat(text)
    # Cinder leaves out that it is UTC.
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _own(cloud: Connection, inputs: Inputs) -> dict[str, Any]:
    """The name, and this project: Neutron shows an administrator those of all projects."""
    return {"name": inputs["name"], "project_id": cloud.current_project_id}


def _marked(found: Iterable[Any], inputs: Inputs) -> Iterator[Any]:
    """Those of the cluster that the killed run was creating."""
    wanted = (inputs.get("metadata") or {}).get(marks.CLUSTER)
    return (each for each in found if marks.cluster_of(each) == wanted)


def _networks(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = cloud.network.networks(**_own(cloud, inputs))
    return _orphaned("network", found, cloud.network.delete_network)


def _subnets(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = cloud.network.subnets(name=inputs["name"], network_id=inputs["networkId"])
    return _orphaned("subnet", found, cloud.network.delete_subnet)


def _routers(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = cloud.network.routers(**_own(cloud, inputs))
    return _orphaned("router", found, cloud.network.delete_router)


def _router_interfaces(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    router, subnet = inputs["routerId"], inputs["subnetId"]
    found = (
        port
        for port in cloud.network.ports(device_id=router)
        if any(address["subnet_id"] == subnet for address in port.fixed_ips)
    )
    return _orphaned(
        "router interface",
        found,
        lambda _: cloud.network.remove_interface_from_router(router, subnet),
    )


def _security_groups(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = cloud.network.security_groups(**_own(cloud, inputs))
    return _orphaned("security group", found, cloud.network.delete_security_group)


def _security_group_rules(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    asked = {
        "direction": inputs["direction"],
        "protocol": inputs["protocol"],
        "port_range_min": inputs.get("portRangeMin"),
        "port_range_max": inputs.get("portRangeMax"),
        "remote_group_id": inputs.get("remoteGroupId"),
        "remote_ip_prefix": inputs.get("remoteIpPrefix"),
    }
    found = (
        rule
        for rule in cloud.network.security_group_rules(security_group_id=inputs["securityGroupId"])
        if all(getattr(rule, key) == value for key, value in asked.items())
    )
    return _orphaned(
        "security group rule",
        found,
        cloud.network.delete_security_group_rule,
        called="description",
    )


def _ports(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    listed = cloud.network.ports(**_own(cloud, inputs), network_id=inputs["networkId"])
    # The network may be another cluster's too; security groups are not.
    found = (port for port in listed if {*port.security_group_ids} == {*inputs["securityGroupIds"]})
    return _orphaned("port", found, cloud.network.delete_port)


def _floating_ips(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = (
        address
        for address in cloud.network.ips(
            description=inputs["description"], project_id=cloud.current_project_id
        )
        if address.port_id is None
    )
    return _orphaned("floating IP", found, cloud.network.delete_ip, called="floating_ip_address")


def _servers(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    def delete(server: Any) -> None:  # noqa: ANN401
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, wait=_SERVER_SECONDS)

    found = _marked(cloud.compute.servers(name=f"^{inputs['name']}$"), inputs)
    return _orphaned("server", found, delete)


def _server_groups(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = (
        group
        for group in cloud.compute.server_groups()
        if group.name == inputs["name"] and not group.member_ids
    )
    return _orphaned("server group", found, cloud.compute.delete_server_group)


def _volumes(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    found = _marked(cloud.block_storage.volumes(name=inputs["name"]), inputs)
    return _orphaned("volume", found, cloud.block_storage.delete_volume)


def _attachments(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    server, volume = inputs["instanceId"], inputs["volumeId"]
    return [
        OrphanedResource(
            "attachment",
            f"of volume {volume}",
            f"{server}/{each.id}",
            lambda: cloud.compute.delete_volume_attachment(server, volume),
        )
        for each in cloud.compute.volume_attachments(server)
        if each.volume_id == volume
    ]


def _records(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    zone = inputs["zoneId"]
    return [
        OrphanedResource(
            "DNS record", each.name, f"{zone}/{each.id}", partial(cloud.dns.delete_recordset, each)
        )
        for each in cloud.dns.recordsets(zone, name=inputs["name"], type=inputs["type"])
        if each.records == inputs["records"]
    ]


def _credentials(cloud: Connection, inputs: Inputs) -> list[OrphanedResource]:
    # The library's type includes Keystone v2, which has no application credentials.
    identity: Any = cloud.identity
    user = cloud.current_user_id
    found = identity.application_credentials(user, name=inputs["name"])
    return _orphaned(
        "application credential", found, partial(identity.delete_application_credential, user)
    )


FINDERS: Mapping[str, Callable[[Connection, Inputs], list[OrphanedResource]]] = {
    "openstack:networking/network:Network": _networks,
    "openstack:networking/subnet:Subnet": _subnets,
    "openstack:networking/router:Router": _routers,
    "openstack:networking/routerInterface:RouterInterface": _router_interfaces,
    "openstack:networking/secGroup:SecGroup": _security_groups,
    "openstack:networking/secGroupRule:SecGroupRule": _security_group_rules,
    "openstack:networking/port:Port": _ports,
    "openstack:networking/floatingIp:FloatingIp": _floating_ips,
    "openstack:compute/instance:Instance": _servers,
    "openstack:compute/serverGroup:ServerGroup": _server_groups,
    "openstack:blockstorage/volume:Volume": _volumes,
    "openstack:compute/volumeAttach:VolumeAttach": _attachments,
    "openstack:dns/recordSet:RecordSet": _records,
    "openstack:identity/applicationCredential:ApplicationCredential": _credentials,
}
