"""A network with a router, ports with fixed addresses, one address that moves between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pulumi
import pulumi_openstack as openstack

from lab.cloud.layout import EXTERNAL_NETWORK

CIDR = "10.67.0.0/24"
MOVING = "10.67.0.100"
# Each server's address is the same in every step.
ADDRESSES = {"a": "10.67.0.11", "b": "10.67.0.12", "c": "10.67.0.13", "d": "10.67.0.14"}
# Neutron picks addresses at random, for its DHCP ports too: none of those above.
RANDOM = {"start": "10.67.0.150", "end": "10.67.0.250"}
VRRP = "112"


class Network:
    """The network; `ports_open` are open to all, `moving` allows the moving address everywhere."""

    def __init__(self, ports_open: Iterable[int], moving: bool, names: Sequence[str]) -> None:
        self.network = openstack.networking.Network("network", name="network")
        self.subnet = openstack.networking.Subnet(
            "subnet",
            name="subnet",
            network_id=self.network.id,
            cidr=CIDR,
            ip_version=4,
            allocation_pools=[openstack.networking.SubnetAllocationPoolArgs(**RANDOM)],
        )
        outside = openstack.networking.get_network(name=EXTERNAL_NETWORK, external=True)
        router = openstack.networking.Router(
            "router", name="router", external_network_id=outside.id
        )
        self._routed = openstack.networking.RouterInterface(
            "router", router_id=router.id, subnet_id=self.subnet.id
        )
        self.group = openstack.networking.SecGroup("servers", name="servers")
        for number in ports_open:
            self._rule(f"tcp-{number}", "tcp", number, source="0.0.0.0/0")
        self._rule("vrrp", VRRP, group=self.group.id)
        pairs = [openstack.networking.PortAllowedAddressPairArgs(ip_address=MOVING)]
        self.ports = {
            name: self._port(name, address, pairs if moving else [])
            for name, address in ADDRESSES.items()
        }
        # No server has this port: it reserves the address, and the floating IP points to it.
        self.ports["moving"] = self._port("moving", MOVING, [])
        self.floating = {name: self._floating(name) for name in names}

    def _rule(
        self,
        name: str,
        protocol: str,
        port: int | None = None,
        source: str | None = None,
        group: pulumi.Input[str] | None = None,
    ) -> None:
        openstack.networking.SecGroupRule(
            name,
            security_group_id=self.group.id,
            direction="ingress",
            ethertype="IPv4",
            protocol=protocol,
            port_range_min=port,
            port_range_max=port,
            remote_ip_prefix=source,
            remote_group_id=group,
        )

    def _port(
        self,
        name: str,
        address: str,
        pairs: Sequence[openstack.networking.PortAllowedAddressPairArgs],
    ) -> openstack.networking.Port:
        return openstack.networking.Port(
            name,
            name=name,
            network_id=self.network.id,
            fixed_ips=[
                openstack.networking.PortFixedIpArgs(subnet_id=self.subnet.id, ip_address=address)
            ],
            security_group_ids=[self.group.id],
            allowed_address_pairs=pairs,
        )

    def _floating(self, name: str) -> openstack.networking.FloatingIp:
        return openstack.networking.FloatingIp(
            name,
            pool=EXTERNAL_NETWORK,
            port_id=self.ports[name].id,
            opts=pulumi.ResourceOptions(depends_on=[self._routed]),
        )
