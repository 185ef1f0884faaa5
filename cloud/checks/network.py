"""Networks, subnets and floating IPs."""

from collections.abc import Iterator
from ipaddress import IPv4Address

from cloud.checks.clusters import is_new
from cloud.checks.names import ambiguous, instead, some, unknown
from cloud.facts import Facts, Subnet
from config.errors import Fault
from config.models.cluster import Cluster


def faults(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """Networks and addresses that do not exist, or that others use."""
    yield from _external_network(cluster, facts)
    yield from _existing_network(cluster, facts)
    yield from _floating_ip(cluster, facts)


def warnings(cluster: Cluster, facts: Facts) -> Iterator[str]:
    """A new subnet without name servers of its own, and a network of another project."""
    wanted = cluster.existing_network
    if wanted is None and is_new(cluster, facts) and not cluster.dns_nameservers:
        yield (
            "dnsNameservers is not set: the cloud chooses the DNS servers of the new subnet, and "
            "many clouds choose none that work. Then no package can be installed, and no gateway "
            "comes up; `openstack subnet list --long` shows those of other subnets"
        )
    if wanted is not None and any(
        network.name == wanted.network and network.foreign for network in facts.networks or ()
    ):
        yield (
            f"existingNetwork.network = {wanted.network}: it belongs to another project, and "
            "Neutron's own policy lets only its owner choose addresses and let the VIP move: "
            "without another policy, ports are refused (403)"
        )


def _external_network(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    if facts.networks is None:
        return
    wanted = cluster.external_network
    external = {network.name for network in facts.networks if network.external}
    count = sum(network.external and network.name == wanted for network in facts.networks)
    yield from ambiguous("externalNetwork", wanted, count, "external networks")
    if count == 1 and _creates_floating_ip(cluster, facts):
        # The provider asks for it by this name, of whatever kind the network is.
        count = sum(network.name == wanted for network in facts.networks)
        yield from ambiguous("externalNetwork", wanted, count, "networks")
    if wanted not in external and any(n.name == wanted for n in facts.networks):
        hint = instead(wanted, external, "external network")
        yield Fault("externalNetwork", wanted, f"is not an external network; {hint}")
        return
    yield from unknown("externalNetwork", wanted, external, "external network")


def _creates_floating_ip(cluster: Cluster, facts: Facts) -> bool:
    made = cluster.floating_ip_description
    known = {each.description for each in facts.floating_ips or ()}
    return cluster.floating_ip is None and made not in known


def _existing_network(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    wanted = cluster.existing_network
    if wanted is None or facts.networks is None:
        return
    networks = [network for network in facts.networks if network.name == wanted.network]
    names = {network.name for network in facts.networks}
    yield from unknown("existingNetwork.network", wanted.network, names, "network")
    yield from ambiguous("existingNetwork.network", wanted.network, len(networks), "networks")
    if len(networks) != 1:
        return
    if not networks[0].port_security:
        yield Fault(
            "existingNetwork.network",
            wanted.network,
            "has no port security, and without it Neutron refuses security groups and the move of "
            "the VIP; enable it (`openstack network set --enable-port-security`)",
        )
    if facts.subnets is None:
        return
    subnets = [s for s in facts.subnets if s.network_id == networks[0].id]
    count = sum(subnet.name == wanted.subnet for subnet in subnets)
    what = f"IPv4 subnets of {wanted.network}"
    yield from ambiguous("existingNetwork.subnet", wanted.subnet, count, what)
    if count > 1:
        return
    of_network = {subnet.name: subnet for subnet in subnets}
    what = f"IPv4 subnet of {wanted.network}"
    yield from unknown("existingNetwork.subnet", wanted.subnet, of_network, what)
    for each in subnets:
        # Others may come later, when a running cluster cannot change its networks any more.
        if each.name == wanted.subnet or is_new(cluster, facts):
            yield from _pods_have_other_addresses(each, cluster)
    if subnet := of_network.get(wanted.subnet):
        # This project does not see the ports of another one's network.
        if not networks[0].foreign:
            yield from _is_routed(subnet, cluster, facts)
        yield from _addresses_are_free(subnet, cluster, facts)


def _is_routed(subnet: Subnet, cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    """A subnet that no router connects to the network of the floating IPs."""
    if facts.router_interfaces is None or facts.routers is None:
        return
    routers = {router.id: router.external_network_id for router in facts.routers}
    connected = facts.router_interfaces.get(subnet.id, frozenset())
    # Those of other projects may lead anywhere.
    if not connected <= routers.keys():
        return
    reached = {facts.network_names.get(routers[each] or "") for each in connected}
    wanted = cluster.external_network
    if wanted in reached:
        return
    elsewhere = ", ".join(sorted(name for name in reached if name))
    yield Fault(
        "existingNetwork.subnet",
        subnet.name,
        f"has no router to {wanted}{elsewhere and f', only to {elsewhere}'}, so no floating IP of "
        "it can lead into the subnet; connect it (`openstack router add subnet`, `openstack router "
        "set --external-gateway`)",
    )


def _pods_have_other_addresses(subnet: Subnet, cluster: Cluster) -> Iterator[Fault]:
    # Workers have addresses anywhere in it, not only in hostCidr; it is routed to its neighbours.
    for key, network in (("podCidr", cluster.pod_cidr), ("serviceCidr", cluster.service_cidr)):
        if network.overlaps(subnet.cidr):
            problem = f"overlaps the subnet {subnet.name} ({subnet.cidr}); choose another network"
            yield Fault(key, network, problem)


def _fixed_addresses(cluster: Cluster) -> dict[IPv4Address, str]:
    """The addresses that this program chooses, and the names of the ports that have them."""
    of_roles = {
        "gateway": cluster.gateway_addresses,
        "control-plane": cluster.addresses.control_planes,
    }
    return {
        cluster.addresses.vip: cluster.vip_name,
        **{
            address: cluster.machine_name(role, index)
            for role, addresses in of_roles.items()
            for index, address in enumerate(addresses)
        },
    }


def _addresses_are_free(subnet: Subnet, cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    host_cidr = cluster.host_cidr
    if not host_cidr.subnet_of(subnet.cidr):
        problem = f"must lie in the subnet {subnet.name}, which is {subnet.cidr}"
        yield Fault("hostCidr", host_cidr, problem)
        return
    fixed = _fixed_addresses(cluster)
    if subnet.router in fixed:
        yield Fault(
            "hostCidr",
            host_cidr,
            f"{subnet.router} would be the address of {fixed[subnet.router]}, but the subnet's "
            "router has it; choose another part of the subnet",
        )
    holders = {
        address: port.name or "a port without a name"
        for port in facts.ports or ()
        if port.network_id == subnet.network_id
        for address in port.addresses
    }
    for address, name in fixed.items():
        if holders.get(address, name) != name:
            yield Fault(
                "hostCidr",
                host_cidr,
                f"{address} would be the address of {name}, but {holders[address]} has it; "
                "choose another part of the subnet",
            )
    first, last = min(fixed), max(fixed)
    for start, end in subnet.pools:
        if start <= last and first <= end:
            yield Fault(
                "hostCidr",
                host_cidr,
                f"gateways and control planes need {first} to {last}, which Neutron may give to "
                f"others: the allocation pool {start}-{end} of {subnet.name} overlaps; "
                "choose a part of the subnet outside of its pools, or change the pools",
            )


def _floating_ip(cluster: Cluster, facts: Facts) -> Iterator[Fault]:
    wanted = cluster.floating_ip
    if wanted is None or facts.floating_ips is None:
        return
    ours = cluster.vip_name
    by_address = {each.address: each for each in facts.floating_ips}
    free = [str(each.address) for each in facts.floating_ips if each.port is None]
    choice = f"set a free one ({some(free)}), or " if free else ""
    choice += "remove the key to get a new one"
    if (found := by_address.get(wanted)) is None:
        yield Fault(
            "floatingIp",
            wanted,
            f"this project has no such floating IP; {choice}. If the cluster had it, "
            "then run pulumi up --refresh: it forgets the old one",
        )
    elif found.description == cluster.floating_ip_description:
        problem = (
            "is the cluster's own, which an update would release with this key; remove the key. To "
            "keep the address beyond the cluster, take it out of the state (pulumi state delete, "
            "its FloatingIp) and clear its description in OpenStack first"
        )
        yield Fault("floatingIp", wanted, problem)
    elif found.port not in (None, ours):
        holder = f"the port {found.port}" if found.port else "a port without a name"
        yield Fault("floatingIp", wanted, f"is in use by {holder}; {choice}")
    elif found.port is None and cluster.existing_network is None:
        # One that the cluster has already keeps it in its network: see `cloud.checks.immutable`.
        of = facts.network_names.get(found.network_id, cluster.external_network)
        if of != cluster.external_network:
            problem = f"is an address of {of}, not of externalNetwork ({cluster.external_network})"
            yield Fault("floatingIp", wanted, f"{problem}; {choice}")
