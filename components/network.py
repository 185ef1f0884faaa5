"""The private network, created or existing, and its security groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

import pulumi
import pulumi_openstack as openstack

from cloud.login import login_variables
from components.last_outputs import EXISTING_NETWORK, EXTERNAL_NETWORK
from components.last_update import LastUpdate
from components.ssh import CommandOnDelete
from config.models.cluster import Cluster
from config.models.network import ExistingNetwork
from config.security_groups import GROUPS, SUBNET, rules

# Stands for the cluster where the network does not belong to it.
_ANCHOR_GROUP = "node"


class Network(pulumi.ComponentResource):
    """Network, subnet, router and the security groups."""

    network_id: pulumi.Output[str]
    subnet_id: pulumi.Output[str]
    # Of all machines; `hostCidr` is all or a part of it.
    subnet_cidr: pulumi.Input[str]
    mtu: pulumi.Output[int]
    external_network_id: pulumi.Output[str]
    # What the next update compares with.
    immutable_settings: Mapping[str, pulumi.Output[str]]
    security_groups: Mapping[str, openstack.networking.SecGroup]
    # Deleted only by a destroy: what need not be undone piece by piece is `deleted_with` it.
    anchor: pulumi.Resource
    # What every floating IP and every server needs, and what outlives both.
    ready: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        cluster_id: pulumi.Output[str],
        last_update: LastUpdate,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:Network", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._kept = pulumi.ResourceOptions(parent=self, protect=cluster.deletion_protection)
        self._name = name
        self._cluster = cluster
        self._last_update = last_update
        self.external_network_id = openstack.networking.get_network_output(
            name=cluster.external_network, external=True
        ).id
        if cluster.existing_network is None:
            self._create()
        else:
            self._use(cluster.existing_network)
        self.security_groups = self._security_groups()
        self._rules = self._security_group_rules()
        if cluster.existing_network is not None:
            self.anchor = self.security_groups[_ANCHOR_GROUP]
        self.ready = (*self.ready, self._cloud_cleanup(cluster_id))
        self.register_outputs({"networkId": self.network_id, "subnetId": self.subnet_id})

    def _cloud_cleanup(self, cluster_id: pulumi.Output[str]) -> pulumi.Resource:
        """Delete what controllers created, on destroy, between the last server and the network.

        A router's interface cannot go before their floating IPs, nor a subnet before their ports.
        """
        keep = " --keep-volumes" if self._cluster.keep_volumes else ""
        return CommandOnDelete(
            f"{self._name}-cloud-cleanup",
            pulumi.Output.concat("cloud_cleanup ", cluster_id, keep),
            login_variables(),
            pulumi.ResourceOptions.merge(
                self._child, pulumi.ResourceOptions(depends_on=[self.anchor, *self.ready])
            ),
        )

    def _use(self, existing: ExistingNetwork) -> None:
        found = openstack.networking.get_network_output(name=existing.network)
        self.network_id = self._last_update.check_network(
            EXISTING_NETWORK, existing.network, found.id
        )
        subnet = openstack.networking.get_subnet_output(
            name=existing.subnet, network_id=self.network_id, ip_version=4
        )
        self.subnet_id, self.mtu, self.subnet_cidr = subnet.id, found.mtu, subnet.cidr
        self.immutable_settings = {EXISTING_NETWORK: self.network_id}
        self.ready = ()

    def _create(self) -> None:
        cluster, addresses = self._cluster, self._cluster.addresses
        # Neutron keeps a router in the external network of the floating IPs behind it.
        self.external_network_id = self._last_update.check_network(
            EXTERNAL_NETWORK, cluster.external_network, self.external_network_id
        )
        self.immutable_settings = {EXTERNAL_NETWORK: self.external_network_id}
        network = openstack.networking.Network(
            self._name, name=cluster.cluster_name, admin_state_up=True, opts=self._kept
        )
        subnet = openstack.networking.Subnet(
            self._name,
            name=cluster.cluster_name,
            network_id=network.id,
            cidr=str(addresses.network),
            ip_version=4,
            gateway_ip=str(addresses.router),
            allocation_pools=[
                openstack.networking.SubnetAllocationPoolArgs(
                    start=str(addresses.pool_start), end=str(addresses.pool_end)
                )
            ],
            dns_nameservers=[str(address) for address in cluster.dns_nameservers],
            opts=self._child,
        )
        router = openstack.networking.Router(
            self._name,
            name=cluster.cluster_name,
            external_network_id=self.external_network_id,
            opts=self._child,
        )
        interface = openstack.networking.RouterInterface(
            self._name, router_id=router.id, subnet_id=subnet.id, opts=self._child
        )
        self.network_id, self.subnet_id, self.mtu = network.id, subnet.id, network.mtu
        self.anchor = network
        self.subnet_cidr = str(addresses.network)
        self.ready = (interface,)

    def _security_groups(self) -> dict[str, openstack.networking.SecGroup]:
        name = self._cluster.cluster_name
        anchor = None if self._cluster.existing_network is None else _ANCHOR_GROUP
        return {
            group: openstack.networking.SecGroup(
                f"{self._name}-{group}",
                name=f"{name}-{group}",
                description=f"{group} machines of the Kubernetes cluster {name}",
                opts=self._kept if group == anchor else self._child,
            )
            for group in GROUPS
        }

    def _security_group_rules(self) -> list[tuple[str, pulumi.Resource]]:
        """Every rule, with its source."""
        groups = self.security_groups
        made: list[tuple[str, pulumi.Resource]] = []
        for rule in rules(self._cluster):
            from_group = rule.source in groups
            prefix = self.subnet_cidr if rule.source == SUBNET else rule.source
            resource = openstack.networking.SecGroupRule(
                f"{self._name}-{rule.key}",
                security_group_id=groups[rule.group].id,
                direction="ingress",
                ethertype="IPv4",
                protocol=rule.protocol,
                port_range_min=rule.first,
                port_range_max=rule.last,
                remote_group_id=groups[rule.source].id if from_group else None,
                remote_ip_prefix=None if from_group else prefix,
                description=rule.why,
                # Another text replaces the rule, and Neutron takes its successor for a duplicate.
                opts=pulumi.ResourceOptions.merge(
                    self._child, pulumi.ResourceOptions(ignore_changes=["description"])
                ),
            )
            made.append((rule.source, resource))
        return made

    def rules_for(self, address: IPv4Address) -> list[pulumi.Resource]:
        """The rules that let in this machine, which has no port in Neutron."""
        return [
            made for source, made in self._rules if "/" in source and address in IPv4Network(source)
        ]
