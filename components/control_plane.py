"""1, 3 or 5 control planes with stacked etcd. None of them is special."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_openstack as openstack

from addons.cloud_conf import CloudConfig
from addons.unprivileged import USER
from components.api_server_files import encryption_providers
from components.backups import backup_files, backup_variables
from components.control_plane_files import (
    cloud_config_files,
    kubeadm_files,
    kubernetes_files,
    pki_files,
)
from components.coredns import coredns_variables
from components.machine_login import copy_scripts
from components.node import Node, NodeArgs, NodeContext, Preparation
from components.packing import environment_file
from components.rollout import MachineOutput, Turns
from components.rotation_script import rotation_script
from components.server import Server, ServerArgs, server_group
from components.ssh import Script, ScriptSource, connection
from config import ports
from config.load import Secrets
from config.values.kubernetes import seconds


class ControlPlane(pulumi.ComponentResource):
    """The control planes; servers come up in parallel, etcd members join one at a time."""

    # Done once, when the API first answers through the VIP.
    api_ready: Script
    # The program's own, for the floating IP; known when the API has answered once.
    kubeconfig: pulumi.Output[str]
    turns: Turns
    nodes: Sequence[Node]
    # What replaces keys when every control plane is a member.
    rotations: Sequence[pulumi.Resource]
    machines: Sequence[MachineOutput]
    # Of Kubernetes; known when every control plane has it. The engine takes the stack's outputs all
    # at once, so a run that fails here leaves those of the last successful one.
    version: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        context: NodeContext,
        *,
        cloud_configs: Mapping[str, CloudConfig],
        secrets: Secrets,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:ControlPlane", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._context = context
        self._cloud_configs = cloud_configs
        self._secrets = secrets
        cluster = context.cluster
        group = server_group(name, cluster.control_plane.server_group_policy, self._child)
        turns: dict[str, pulumi.Resource] = {}
        machines: list[MachineOutput] = []
        nodes: list[Node] = []
        for index in range(cluster.control_plane_count):
            server = self._server(index, group, turns)
            node = self._node(index, server, nodes[-1:])
            turns[server.name] = node.joined
            nodes.append(node)
            machines.append(
                {"name": server.name, "role": "control-plane", "address": server.address}
            )
        self.turns = turns
        self.nodes = nodes
        self.machines = machines
        self.version = pulumi.Output.all(*(each.urn for each in turns.values())).apply(
            lambda _: cluster.kubernetes_version
        )
        self.api_ready = self._wait_for_api(name)
        self.rotations = (
            [self._rotate_encryption_key(name)] if cluster.rotation.encryption_key > 1 else []
        )
        self.kubeconfig = self.api_ready.id.apply(lambda _: context.kubeconfig)
        self.register_outputs({})

    def _wait_for_api(self, name: str) -> Script:
        context = self._context
        return Script(
            f"{name}-api",
            "cluster/api.sh wait",
            target=connection(context.gateway.ssh),
            # Its command stays that of the cluster's creation.
            source=ScriptSource.ANY_COPY,
            files={
                "node.env": environment_file({**context.variables, "NODE_NAME": name}),
                "kubeconfig": context.gateway_kubeconfig,
            },
            opts=pulumi.ResourceOptions.merge(
                self._child,
                pulumi.ResourceOptions(
                    depends_on=context.rollout.control_planes(self.turns),
                    deleted_with=context.network.anchor,
                    ignore_changes=["connection", "create", "stdin"],
                ),
            ),
        )

    def _rotate_encryption_key(self, name: str) -> Script:
        """Rewrite all Secrets when every control plane can read what the new key encrypts."""
        context, cluster = self._context, self._context.cluster
        providers = encryption_providers(
            cluster.rotation.encryption_key, encrypt=cluster.encryption_at_rest
        )
        return rotation_script(
            name,
            "encryption-key",
            context,
            control_planes=self.nodes,
            visited=self.nodes,
            variables={"SSH_USER": cluster.ssh_user, "ENCRYPTION": " ".join(providers)},
            files={},
            after=[*self.turns.values()],
            opts=self._child,
        )

    def _server(self, index: int, group: openstack.compute.ServerGroup, before: Turns) -> Server:
        context, cluster = self._context, self._context.cluster
        name = cluster.machine_name("control-plane", index)
        return Server(
            context,
            ServerArgs(
                name=name,
                role="control-plane",
                index=index,
                servers=cluster.control_plane_servers,
                security_groups=["node", "control-plane"],
                address=str(cluster.addresses.control_planes[index]),
                server_group=group,
                predecessors=context.rollout.predecessors(
                    name, before, first=context.gateway.handovers
                ),
            ),
            self._child,
        )

    def _node(self, index: int, server: Server, previous: Sequence[Node]) -> Node:
        context, cluster = self._context, self._context.cluster
        login = server.login(via=context.gateway.ssh)
        keys = server.take_newest_keys(login, after=context.gateway.ready)
        copied = copy_scripts(login, after=keys, opts=self._child)
        settings = cluster.control_plane.etcd_volume
        volume = None if settings is None else server.attach_etcd_volume(settings)
        volumes = [] if volume is None else [volume]
        kubeadm = kubeadm_files(
            cluster,
            server.name,
            index,
            provider_id=server.provider_id,
            floating_ip=context.gateway.floating_ip,
        )
        preparation = None
        # The first one waits for no one.
        if previous:
            preparation = Preparation(
                files={"kubeadm-init.yaml": kubeadm["kubeadm-init.yaml"]}, after=[copied]
            )
        return Node(
            context,
            NodeArgs(
                login=login,
                role="control-plane",
                address=server.address,
                provider_id=server.provider_id,
                files={
                    **backup_files(cluster.backup, self._secrets.backup_secret_key, context.pki),
                    **kubeadm,
                    **pki_files(context.pki),
                    **kubernetes_files(cluster, context.pki),
                    **cloud_config_files(self._cloud_configs),
                    "kubeconfig": context.pki.kubeconfig(
                        context.pki.program,
                        f"https://{cluster.api_name}:{ports.LOCAL_API}",
                    ),
                },
                variables={
                    "INITIALIZE": self._initialize(server) if index == 0 else "false",
                    "CERTIFICATE_SECONDS": str(
                        seconds(cluster.kubeadm.certificate_validity_period)
                    ),
                    "CLOUD_CONFIG_GROUP": str(USER),
                    "ETCD_DEVICE": "" if volume is None else _device(volume.volume_id),
                    "ETCD_QUOTA_BYTES": str(cluster.etcd.quota_backend_bytes),
                    **coredns_variables(cluster),
                    **backup_variables(cluster, initializes=index == 0),
                },
                keys=keys,
                preparation=preparation,
                configure_after=[copied, *(node.configured for node in previous), *volumes],
                volumes=volumes,
                # Costs no time, since they join in turn anyway.
                join_after=[node.joined for node in previous],
                # They leave in reverse order, also those that the last update has created.
                needed_to_leave=[node.membership for node in previous],
            ),
            self._child,
        )

    def _initialize(self, server: Server) -> pulumi.Output[str]:
        """`true` on servers made before the first successful update, `restore` on later ones."""
        context = self._context
        stash = pulumi.Stash(
            f"{server.name}-initialize",
            input=context.rollout.during_creation("true", later="restore"),
            opts=pulumi.ResourceOptions.merge(
                self._child,
                # The first answer counts for as long as the server lives.
                pulumi.ResourceOptions(
                    ignore_changes=["input"], replacement_trigger=server.instance.id
                ),
            ),
        )
        if not context.cluster.control_plane.begin_empty:
            return stash.output
        pulumi.log.warn(
            "controlPlane.beginEmpty is set: a cluster that loses all control planes begins empty. "
            "Once it has: pulumi config rm --path controlPlane.beginEmpty"
        )
        return pulumi.Output.from_input("true")


def _device(volume_id: pulumi.Output[str]) -> pulumi.Output[str]:
    """A glob for the volume's device: virtio cuts a disk's serial number to 20 characters."""
    return volume_id.apply(lambda volume: f"/dev/disk/by-id/*{volume[:20]}*")
