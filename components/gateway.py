"""The only machines reachable from outside: HAProxy, keepalived and the SSH jump host."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_openstack as openstack

from components.context import Context
from components.host_key import permanent_host_keys
from components.key_pair import KeyPair
from components.machine_folder import proxy_files, reboot_variables
from components.machine_login import MachineLogin, copy_scripts
from components.packing import environment_file, scripts
from components.rollout import MachineOutput, Turns
from components.server import Server, ServerArgs, server_group
from components.ssh import (
    CommandOnDelete,
    Script,
    SshTarget,
    connection,
)
from components.user_data import BOOT_FOLDER
from config import immutable, ports

# Seconds; a floating IP changes only when someone means it to.
_DNS_TTL = 300
_FIRST_BOOT = "openstack-kubernetes-first-boot.service"


class Gateway(pulumi.ComponentResource):
    """One to four gateways behind one floating IP."""

    floating_ip: pulumi.Output[str]
    # The active gateway: the jump host, and where cluster-wide commands run.
    ssh: SshTarget
    # What users type; ADDRESS is a node's.
    ssh_command: pulumi.Output[str]
    # Each gateway with what is deleted first when it goes.
    handovers: Turns
    # What is done when the gateways are configured.
    ready: Sequence[pulumi.Resource]
    # Each gateway at its own port.
    logins: Sequence[MachineLogin]
    machines: Sequence[MachineOutput]

    def __init__(
        self, name: str, context: Context, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:Gateway", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._name = name
        self._context = context
        cluster = context.cluster
        association = self._virtual_ip()
        self._dns_record()
        group = server_group(name, cluster.gateway.server_group_policy, self._child)
        # Whichever gateway is active, the floating IP must show the same host key.
        shared = permanent_host_keys(name, cluster.rotation.host_keys, self._child)
        self.ssh = self._ssh(shared, ports.SSH)

        self.ssh_command = pulumi.Output.format(
            "ssh -J {0}@{1} {0}@ADDRESS  # addresses: pulumi stack output nodes",
            cluster.ssh_user,
            self.floating_ip,
        )

        handovers: dict[str, pulumi.Resource] = {}
        ready: list[pulumi.Resource] = []
        machines: list[MachineOutput] = []
        logins: list[MachineLogin] = []
        for index in range(cluster.gateway_count):
            server = self._server(index, shared, group, handovers)
            login = server.login(to=self._ssh(shared, ports.FIRST_GATEWAY_SSH + index), via=None)
            keys = server.take_newest_keys(login, after=[association])
            copied = copy_scripts(login, after=keys, opts=self._child)
            configured = self._configure(index, login, copied)
            # They leave in reverse order, also those that the last update has created.
            previous = [*handovers.values()][-1:]
            handovers[server.name] = self._handover(server, [configured, *previous])
            ready.append(configured)
            logins.append(login)
            machines.append({"name": server.name, "role": "gateway", "address": server.address})
        self.handovers = handovers
        self.ready = ready
        self.logins = logins
        self.machines = machines
        self.register_outputs({"floatingIp": self.floating_ip})

    def _virtual_ip(self) -> pulumi.Resource:
        """The port that only holds the VIP, and the floating IP on it."""
        cluster, network = self._context.cluster, self._context.network
        vip = openstack.networking.Port(
            f"{self._name}-vip",
            name=cluster.vip_name,
            # Every cluster has this port, and the cloud checks ask for ports anyway.
            description=immutable.write(cluster.immutable_settings),
            network_id=network.network_id,
            admin_state_up=True,
            fixed_ips=[
                openstack.networking.PortFixedIpArgs(
                    subnet_id=network.subnet_id, ip_address=str(cluster.addresses.vip)
                )
            ],
            security_group_ids=[network.security_groups["gateway"].id],
            opts=self._child,
        )
        if cluster.floating_ip is None:
            self.floating_ip = openstack.networking.FloatingIp(
                self._name,
                pool=cluster.external_network,
                # By it, the cloud checks know it before it points at the VIP.
                description=cluster.floating_ip_description,
                opts=pulumi.ResourceOptions.merge(
                    self._child,
                    # Another network costs the address; another name of the same one does not.
                    pulumi.ResourceOptions(
                        ignore_changes=["pool"], replacement_trigger=network.external_network_id
                    ),
                ),
            ).address
        else:
            self.floating_ip = pulumi.Output.from_input(str(cluster.floating_ip))
        return openstack.networking.FloatingIpAssociate(
            self._name,
            floating_ip=self.floating_ip,
            port_id=vip.id,
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    depends_on=list(network.ready),
                    # Neutron refuses a second floating IP of the same network for one address.
                    delete_before_replace=True,
                    # With its port, Neutron takes the address from it, but from no one else who may
                    # have it by then; and it may be gone.
                    deleted_with=vip,
                ),
            ),
        )

    def _dns_record(self) -> None:
        cluster = self._context.cluster
        if cluster.dns is None:
            return
        openstack.dns.RecordSet(
            self._name,
            zone_id=openstack.dns.get_dns_zone_output(name=cluster.dns.zone).id,
            name=cluster.dns_name,
            type="A",
            ttl=_DNS_TTL,
            records=[self.floating_ip],
            opts=self._child,
        )

    def _ssh(self, host_keys: Sequence[KeyPair], port: int) -> SshTarget:
        return SshTarget(
            address=self.floating_ip,
            port=port,
            user=self._context.cluster.ssh_user,
            private_key=self._context.pki.ssh_private_key,
            host_key=host_keys[-1].public,
        )

    def _server(
        self,
        index: int,
        host_keys: Sequence[KeyPair],
        group: openstack.compute.ServerGroup,
        handovers: Turns,
    ) -> Server:
        cluster = self._context.cluster
        name = cluster.machine_name("gateway", index)
        return Server(
            self._context,
            ServerArgs(
                name=name,
                role="gateway",
                index=index,
                servers=cluster.gateway_servers,
                security_groups=["gateway"],
                address=str(cluster.addresses.gateways[index]),
                moving_addresses=[str(cluster.addresses.vip)],
                server_group=group,
                host_keys=host_keys,
                # A gateway must work before the first SSH connection, which comes through it.
                boot_files={**scripts("lib", "gateway"), **self._files(index)},
                boot_packages=["haproxy", "keepalived"],
                # Until it succeeds: the way to repair it leads through itself.
                boot_commands=[
                    ["systemctl", "enable", f"{BOOT_FOLDER}/gateway/files/{_FIRST_BOOT}"],
                    ["systemctl", "start", _FIRST_BOOT],
                ],
                predecessors=self._context.rollout.predecessors(name, handovers),
            ),
            self._child,
        )

    def _files(self, index: int) -> dict[str, pulumi.Input[str]]:
        """The computed settings of one gateway, and the public CA certificate."""
        cluster = self._context.cluster
        gateways = cluster.gateway_addresses
        variables: dict[str, str | int | bool] = {
            **self._context.variables,
            **reboot_variables(cluster.addons.kured),
            "ROLE": "gateway",
            "NODE_NAME": cluster.machine_name("gateway", index),
            "NODE_IP": str(gateways[index]),
            "VIP": str(cluster.addresses.vip),
            "VRRP_ID": int(cluster.addresses.vip) % 254 + 1,
            "GATEWAY_ADDRESSES": " ".join(map(str, gateways)),
            "PEERS": " ".join(str(each) for each in gateways if each != gateways[index]),
            "GATEWAY_PLACES": " ".join(map(str, cluster.addresses.gateways)),
            "INGRESS_PROXY_PROTOCOL": cluster.addons.ingress.enabled,
            "METRICS": cluster.addons.monitoring.enabled,
        }
        if cluster.addons.object_store.enabled:
            variables |= {
                "OBJECT_STORE_PORT": ports.OBJECT_STORE,
                "OBJECT_STORE_NODE_PORT": ports.OBJECT_STORE_NODE_PORT,
            }
        return {
            "ca.crt": self._context.pki.authorities.bundle(),
            "node.env": environment_file(variables),
        }

    def _configure(
        self, index: int, login: MachineLogin, copied: pulumi.Resource
    ) -> pulumi.Resource:
        return Script(
            f"{login.name}-configure",
            "gateway/gateway.sh configure",
            target=connection(login.to),
            files={
                **self._files(index),
                **proxy_files(self._context.cluster),
            },
            triggers=[login.machine_id],
            opts=pulumi.ResourceOptions.merge(
                self._child, pulumi.ResourceOptions(depends_on=[copied])
            ),
        )

    def _handover(self, server: Server, after: list[pulumi.Resource]) -> pulumi.Resource:
        """Hand the VIP to another gateway when this one is deleted, before all else of it."""
        return CommandOnDelete(
            f"{server.name}-handover",
            "gateway_handover",
            {
                "GATEWAY": server.name,
                "SERVER_ID": server.instance.id,
                "OTHERS": str(self._context.cluster.gateway_count - 1),
                "ADDRESS": self.ssh.address,
                "SSH_USER": self.ssh.user,
                "SSH_KEY": self.ssh.private_key,
                "HOST_KEY": self.ssh.host_key,
            },
            pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(depends_on=after, deleted_with=self._context.network.anchor),
            ),
            triggers=[server.instance.id],
        )
