"""A pool of workers: servers that are created, or machines that exist already."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pulumi
import pulumi_openstack as openstack

from components import kubeadm
from components.control_plane import ControlPlane
from components.kubelet import kubelet_configuration
from components.machine_login import MachineLogin, copy_scripts
from components.node import Node, NodeArgs, NodeContext
from components.outputs import also
from components.rollout import MachineOutput, Turns
from components.server import Server, ServerArgs, server_group
from components.ssh import SshTarget
from components.ssh_key import accept_ssh_key
from config.models.machines import ExistingMachine, Pool
from config.reserved import NO_SERVER


class WorkerPool(pulumi.ComponentResource):
    """Workers that come up in parallel, and leave and roll `maxUnavailable` at a time."""

    nodes: Sequence[Node]
    machines: Sequence[MachineOutput]

    def __init__(
        self,
        name: str,
        context: NodeContext,
        *,
        pool: Pool,
        control_plane: ControlPlane,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:WorkerPool", name, {}, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._context = context
        self._pool = pool
        self._control_plane = control_plane
        turns: dict[str, pulumi.Resource] = {}
        nodes: list[Node] = []
        machines: list[MachineOutput] = []
        if pool.count:
            group = server_group(name, pool.server_group_policy, self._child)
        for index in range(pool.count):
            server = self._server(index, group, turns)
            node = self._server_node(server, len(turns))
            nodes.append(node)
            turns[server.name] = node.joined
            machines.append(self._output(server.name, server.address))
        for existing in pool.machines:
            node = self._existing_node(existing, turns)
            nodes.append(node)
            turns[existing.name] = node.joined
            machines.append(self._output(existing.name, str(existing.address)))
        self.nodes = nodes
        self.machines = machines
        self.register_outputs({})

    def _predecessors(self, name: str, before: Turns) -> pulumi.Output[list[pulumi.Resource]]:
        return self._context.rollout.predecessors(
            name,
            before,
            at_once=self._pool.max_unavailable,
            first=self._control_plane.turns,
        )

    def _output(self, name: str, address: pulumi.Input[str]) -> MachineOutput:
        return {"name": name, "role": "worker", "pool": self._pool.name, "address": address}

    def _server(self, index: int, group: openstack.compute.ServerGroup, before: Turns) -> Server:
        name = self._context.cluster.machine_name(self._pool.name, index)
        return Server(
            self._context,
            ServerArgs(
                name=name,
                role="worker",
                index=index,
                servers=self._pool.servers,
                security_groups=["node", "worker"],
                server_group=group,
                predecessors=self._predecessors(name, before),
            ),
            self._child,
        )

    def _server_node(self, server: Server, place: int) -> Node:
        gateway = self._context.gateway
        login = server.login(via=gateway.ssh)
        keys = server.take_newest_keys(login, after=gateway.ready)
        return self._node(
            login,
            address=server.address,
            provider_id=server.provider_id,
            keys=keys,
            after=[copy_scripts(login, after=keys, opts=self._child)],
            place=place,
        )

    def _existing_node(self, machine: ExistingMachine, before: Turns) -> Node:
        context = self._context
        login = MachineLogin(
            name=machine.name,
            to=SshTarget(
                address=str(machine.address),
                user=machine.ssh_user or context.cluster.ssh_user,
                private_key=context.pki.ssh_private_key,
                host_key=machine.host_key,
            ),
            via=context.gateway.ssh,
            machine_id=f"{machine.name}@{machine.address}",
            host_keys=[],
        )
        accepted = accept_ssh_key(context, login, after=context.gateway.ready, opts=self._child)
        copied = copy_scripts(login, after=[*context.gateway.ready, *accepted], opts=self._child)
        return self._node(
            login,
            address=str(machine.address),
            provider_id=None,
            keys=accepted,
            after=also(self._predecessors(machine.name, before), copied),
            place=len(before),
            # It joins when it is let in, and is drained before it is shut out.
            needed_to_leave=context.network.rules_for(machine.address),
        )

    def _node(
        self,
        login: MachineLogin,
        *,
        address: pulumi.Input[str],
        provider_id: pulumi.Input[str] | None,
        keys: Sequence[pulumi.Resource],
        after: pulumi.Input[Sequence[pulumi.Resource]],
        place: int,
        needed_to_leave: Sequence[pulumi.Resource] = (),
    ) -> Node:
        cluster, pool = self._context.cluster, self._pool
        labels = dict(pool.labels)
        if provider_id is None:
            labels[NO_SERVER] = "true"
        join = pulumi.Output.all(address, provider_id).apply(
            lambda both: kubeadm.join_file(
                kubeadm.Registration(
                    name=login.name,
                    address=both[0],
                    provider_id=both[1],
                    taints=pool.taints,
                    external_cloud_provider=cluster.addons.cloud_controller_manager.enabled,
                    ignore_preflight_errors=cluster.kubeadm.ignore_preflight_errors,
                ),
                control_plane=False,
            )
        )
        return Node(
            self._context,
            NodeArgs(
                login=login,
                role="worker",
                address=address,
                provider_id=provider_id,
                files={"kubeadm-join.yaml": join},
                # Workers read the settings in the cluster: a change must make them look.
                variables={
                    "KUBELET_CONFIG_SHA256": _checksum(
                        kubelet_configuration(cluster.kubelet.extra_config)
                    )
                },
                membership_variables={
                    "POOL": pool.name,
                    "MAX_UNHEALTHY": pool.max_unhealthy,
                    "NODE_LABELS": ",".join(f"{key}={value}" for key, value in labels.items()),
                    "NODE_TAINTS": ",".join(map(str, pool.taints)),
                    **({"DELETE_LOCAL_VOLUMES": "true"} if pool.delete_local_volumes else {}),
                },
                # Also those that joined in parallel, whose order the state does not know.
                drain_queue=f"drain-{pool.name}-{place % pool.max_unavailable}",
                keys=keys,
                configure_after=after,
                needed_to_leave=[self._control_plane.api_ready, *needed_to_leave],
            ),
            self._child,
        )


def _checksum(document: kubeadm.Document) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
