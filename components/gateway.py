"""The only machines with a way in: HAProxy, keepalived and the SSH jump host, 1..n times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from components.machine import Machine, MachineArgs, server_group
from components.network import Network
from components.pki import HostKeys, Pki
from components.rollout import Memberships, NodeOutput, RolloutOrder
from components.ssh import Script, SshTarget, connection, environment_file, on_delete, scripts
from config import immutable
from config.addresses import Addresses
from config.models.machines import Servers
from config.models.surroundings import PackageMirrors

# The first of the ports on the floating IP that lead to one certain gateway's sshd.
FIRST_SSH_PORT = 2200

# The node ports of the ingress controller's HTTP and HTTPS, where 80 and 443 lead to.
INGRESS_NODE_PORTS = (30080, 30443)


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    """How many gateways of what kind. `floating_ip` None takes a new one."""

    cluster_name: str
    count: int
    settings: Servers
    addresses: Addresses
    vip_name: str
    # Keys that stay as they are while the cluster lives, for the next preview to read.
    immutable_settings: Mapping[str, str]
    network: Network
    pki: Pki
    external_network: str
    floating_ip: str | None
    # A zone in Designate and the full name in it that is to mean the floating IP.
    dns_zone: str | None
    dns_name: str | None
    ssh_user: str
    package_mirrors: PackageMirrors
    # Whether the ingress expects to be told the client's address.
    ingress_proxy_protocol: bool
    # Whether there is a Prometheus in the cluster that asks the gateways.
    monitored: bool
    # node.env keys that say when a gateway may reboot; empty: never by itself.
    reboots: Mapping[str, str]
    # node.env keys that every machine has.
    environment: Mapping[str, str]
    server_group_policy: str
    rollout: RolloutOrder


class Gateway(pulumi.ComponentResource):
    """The gateways behind one floating IP."""

    floating_ip: pulumi.Output[str]
    # The active gateway as a jump host, and as the place where cluster-wide commands run.
    login: SshTarget
    # Each gateway with what is deleted first when it goes; `ready` is done when it is configured.
    gates: Memberships
    ready: Sequence[pulumi.Resource]
    nodes: Sequence[NodeOutput]
    # Name to address, both computed.
    addresses: Mapping[str, str]

    def __init__(
        self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:Gateway", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self._args = args
        association = self._virtual_ip(name, child)
        group = server_group(name, args.server_group_policy, child)
        self._record(name, child)
        # Whichever gateway is active, the floating IP must show the same host key.
        shared = HostKeys(name, child)
        self.login = self._login(shared.real.public_key_openssh)

        gates: list[tuple[str, pulumi.Resource]] = []
        ready: list[pulumi.Resource] = []
        nodes: list[NodeOutput] = []
        for index in range(args.count):
            machine_name = f"{args.cluster_name}-gateway-{index}"
            machine = self._machine(
                machine_name,
                index,
                shared,
                group,
                predecessors=args.rollout.predecessors(machine_name, gates),
                opts=child,
            )
            configured = self._configure(index, machine, association, child)
            # They leave in the other order, also those that the very last update has made.
            before = [handover for _, handover in gates[-1:]]
            gates.append((machine_name, self._handover(machine, [configured, *before], child)))
            ready.append(configured)
            nodes.append({"name": machine.name, "role": "gateway", "address": machine.address})
        self.gates = gates
        self.ready = ready
        self.nodes = nodes
        self.addresses = {
            f"{args.cluster_name}-gateway-{index}": str(args.addresses.gateways[index])
            for index in range(args.count)
        }
        self.register_outputs({"floatingIp": self.floating_ip})

    def _virtual_ip(self, name: str, child: pulumi.ResourceOptions) -> pulumi.Resource:
        """The port that only holds the VIP, and the floating IP on it."""
        args = self._args
        vip = openstack.networking.Port(
            f"{name}-vip",
            name=args.vip_name,
            # Every cluster has this port, and `preflight` asks for ports anyway.
            description=immutable.write(args.immutable_settings),
            network_id=args.network.network_id,
            admin_state_up=True,
            fixed_ips=[
                openstack.networking.PortFixedIpArgs(
                    subnet_id=args.network.subnet_id, ip_address=str(args.addresses.vip)
                )
            ],
            security_group_ids=[args.network.security_groups["gateway"].id],
            opts=child,
        )
        if args.floating_ip is None:
            self.floating_ip = openstack.networking.FloatingIp(
                name,
                pool=args.external_network,
                description=f"API and way in of the Kubernetes cluster {args.cluster_name}",
                opts=child,
            ).address
        else:
            self.floating_ip = pulumi.Output.from_input(args.floating_ip)
        return openstack.networking.FloatingIpAssociate(
            name,
            floating_ip=self.floating_ip,
            port_id=vip.id,
            opts=pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(depends_on=list(args.network.ready))
            ),
        )

    def _record(self, name: str, child: pulumi.ResourceOptions) -> None:
        args = self._args
        if args.dns_zone is None or args.dns_name is None:
            return
        openstack.dns.RecordSet(
            name,
            zone_id=openstack.dns.get_dns_zone_output(name=args.dns_zone).id,
            name=args.dns_name,
            type="A",
            # Seconds; a floating IP changes only when somebody means it to.
            ttl=300,
            records=[self.floating_ip],
            opts=child,
        )

    def _login(self, host_key: pulumi.Input[str], port: int = 22) -> SshTarget:
        return SshTarget(
            address=self.floating_ip,
            port=port,
            user=self._args.ssh_user,
            private_key=self._args.pki.ssh_private_key,
            host_key=host_key,
        )

    def _machine(
        self,
        name: str,
        index: int,
        keys: HostKeys,
        group: openstack.compute.ServerGroup,
        *,
        predecessors: pulumi.Input[Sequence[pulumi.Resource]],
        opts: pulumi.ResourceOptions,
    ) -> Machine:
        args = self._args
        return Machine(
            MachineArgs(
                name=name,
                role="gateway",
                index=index,
                cluster_name=args.cluster_name,
                settings=args.settings,
                network=args.network,
                security_groups=["gateway"],
                ssh_user=args.ssh_user,
                pki=args.pki,
                package_mirrors=args.package_mirrors,
                address=str(args.addresses.gateways[index]),
                moving_addresses=[str(args.addresses.vip)],
                server_group=group,
                host_keys=keys,
                # A gateway must work before the first SSH connection: it is the way in.
                boot_files=self._files(index),
                boot_packages=["haproxy", "keepalived"],
                boot_commands=[
                    ["bash", "/etc/openstack-kubernetes/boot/gateway/gateway.sh", "configure"],
                ],
                predecessors=predecessors,
            ),
            opts,
        )

    def _files(self, index: int) -> dict[str, pulumi.Input[str]]:
        """The folder of one gateway: computed addresses and the public CA certificate."""
        args = self._args
        gateways = args.addresses.gateways[: args.count]
        return {
            **scripts("lib", "gateway"),
            "ca.crt": args.pki.cluster_ca.public,
            "node.env": environment_file(
                {
                    **args.environment,
                    **args.reboots,
                    "ROLE": "gateway",
                    "NODE_NAME": f"{args.cluster_name}-gateway-{index}",
                    "NODE_IP": str(gateways[index]),
                    "VIP": str(args.addresses.vip),
                    "VRRP_ID": int(args.addresses.vip) % 254 + 1,
                    "GATEWAY_ADDRESSES": " ".join(map(str, gateways)),
                    "PEERS": " ".join(str(a) for a in gateways if a != gateways[index]),
                    "GATEWAY_PLACES": " ".join(map(str, args.addresses.gateways)),
                    # Their addresses are always known, and a node port leads to the ingress from
                    # every node.
                    "INGRESS_ADDRESSES": args.environment["CONTROL_PLANE_ADDRESSES"],
                    "INGRESS_PROXY_PROTOCOL": args.ingress_proxy_protocol,
                    "METRICS": args.monitored,
                }
            ),
        }

    def _configure(
        self,
        index: int,
        machine: Machine,
        association: pulumi.Resource,
        child: pulumi.ResourceOptions,
    ) -> pulumi.Resource:
        port = FIRST_SSH_PORT + index
        contact = machine.install_host_key(
            self._login(machine.keys.one_time.public_key_openssh, port),
            via=None,
            after=[association],
        )
        return Script(
            f"{machine.name}-configure",
            "gateway/gateway.sh",
            "configure",
            login=connection(self._login(machine.keys.real.public_key_openssh, port)),
            files={**self._files(index), **scripts("install")},
            triggers=[machine.server.id],
            opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[contact])),
        )

    def _handover(
        self, machine: Machine, after: list[pulumi.Resource], child: pulumi.ResourceOptions
    ) -> pulumi.Resource:
        """On delete: hand the VIP over, before anything of the gateway is touched."""
        login = self.login
        return on_delete(
            f"{machine.name}-handover",
            ".venv/bin/python -m commands.gateway_handover",
            {
                "GATEWAY": machine.name,
                "SERVER_ID": machine.server.id,
                "OTHERS": str(self._args.count - 1),
                "ADDRESS": login.address,
                "SSH_USER": login.user,
                "SSH_KEY": login.private_key,
                "HOST_KEY": login.host_key,
            },
            pulumi.ResourceOptions.merge(
                child,
                pulumi.ResourceOptions(depends_on=after, deleted_with=self._args.network.anchor),
            ),
            triggers=[machine.server.id],
        )
