"""The private network: own or existing, with the security groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from components.ssh import on_delete
from config.addresses import Addresses
from config.models.surroundings import ExistingNetwork
from config.security_groups import ROLES, SUBNET, rules


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """What the network is made of. `existing` replaces network, subnet and router."""

    cluster_name: str
    addresses: Addresses
    external_network: str
    dns_nameservers: Sequence[str]
    allowed_cidrs: Sequence[str]
    ingress_cidrs: Sequence[str]
    # Of nodes that exist already and have no port here.
    machine_cidrs: Sequence[str]
    gateway_count: int
    ingress_ports: Sequence[int]
    # How programs that run where Pulumi runs log in at the cloud.
    login_environment: Mapping[str, str]
    # Whether there is a Prometheus in the cluster that asks every machine.
    monitored: bool
    # Whether load balancers of the cloud reach the workers.
    octavia: bool
    existing: ExistingNetwork | None = None


class Network(pulumi.ComponentResource):
    """Network, subnet, router and one security group for each role."""

    network_id: pulumi.Output[str]
    subnet_id: pulumi.Output[str]
    mtu: pulumi.Output[int]
    external_network_id: pulumi.Output[str]
    security_groups: Mapping[str, openstack.networking.SecGroup]
    # Only a destroy removes it, so what need not be undone one by one is `deleted_with` it.
    anchor: pulumi.Resource
    # What must be there before a floating IP or a server is, and outlives both.
    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:Network", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._name = name
        self.external_network_id = openstack.networking.get_network_output(
            name=args.external_network, external=True
        ).id
        if args.existing is None:
            self._create(args)
        else:
            self._adopt(args.existing)
        self.security_groups = self._security_groups(args)
        if args.existing is not None:
            self.anchor = self.security_groups["node"]
        self.ready = (*self.ready, self._cloud_cleanup(args))
        self.register_outputs({"networkId": self.network_id, "subnetId": self.subnet_id})

    def _cloud_cleanup(self, args: NetworkArgs) -> pulumi.Resource:
        """On destroy, between the last server and the network: what the controllers made."""
        return on_delete(
            f"{self._name}-cloud-cleanup",
            f".venv/bin/python -m commands.cloud_cleanup {args.cluster_name}",
            args.login_environment,
            pulumi.ResourceOptions.merge(
                self._child, pulumi.ResourceOptions(depends_on=[self.anchor])
            ),
        )

    def _adopt(self, existing: ExistingNetwork) -> None:
        network = openstack.networking.get_network_output(name=existing.network)
        subnet = openstack.networking.get_subnet_output(name=existing.subnet, network_id=network.id)
        self.network_id, self.subnet_id, self.mtu = network.id, subnet.id, network.mtu
        self._subnet_cidr: pulumi.Input[str] = subnet.cidr
        self.ready = ()

    def _create(self, args: NetworkArgs) -> None:
        network = openstack.networking.Network(
            self._name, name=args.cluster_name, admin_state_up=True, opts=self._child
        )
        subnet = openstack.networking.Subnet(
            self._name,
            name=args.cluster_name,
            network_id=network.id,
            cidr=str(args.addresses.network),
            ip_version=4,
            gateway_ip=str(args.addresses.router),
            allocation_pools=[
                openstack.networking.SubnetAllocationPoolArgs(
                    start=str(args.addresses.pool_start), end=str(args.addresses.pool_end)
                )
            ],
            dns_nameservers=list(args.dns_nameservers),
            opts=self._child,
        )
        router = openstack.networking.Router(
            self._name,
            name=args.cluster_name,
            external_network_id=self.external_network_id,
            opts=self._child,
        )
        interface = openstack.networking.RouterInterface(
            self._name, router_id=router.id, subnet_id=subnet.id, opts=self._child
        )
        self.network_id, self.subnet_id, self.mtu = network.id, subnet.id, network.mtu
        self.anchor = network
        self._subnet_cidr = str(args.addresses.network)
        self.ready = (interface,)

    def _security_groups(self, args: NetworkArgs) -> dict[str, openstack.networking.SecGroup]:
        groups = {
            role: openstack.networking.SecGroup(
                f"{self._name}-{role}",
                name=f"{args.cluster_name}-{role}",
                description=f"{role} machines of the Kubernetes cluster {args.cluster_name}",
                opts=self._child,
            )
            for role in ROLES
        }
        for rule in rules(
            allowed=args.allowed_cidrs,
            ingress=args.ingress_cidrs,
            machines=args.machine_cidrs,
            gateways=args.gateway_count,
            ingress_ports=args.ingress_ports,
            monitored=args.monitored,
            octavia=args.octavia,
        ):
            from_group = rule.source in groups
            prefix = self._subnet_cidr if rule.source == SUBNET else rule.source
            openstack.networking.SecGroupRule(
                f"{self._name}-{rule.key}",
                security_group_id=groups[rule.role].id,
                direction="ingress",
                ethertype="IPv4",
                protocol=rule.protocol,
                port_range_min=rule.first,
                port_range_max=rule.last,
                remote_group_id=groups[rule.source].id if from_group else None,
                remote_ip_prefix=None if from_group else prefix,
                description=rule.why,
                opts=self._child,
            )
        return groups
