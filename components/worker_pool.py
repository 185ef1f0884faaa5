"""A pool of workers: servers that are made, or machines that exist already."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from components import kubeadm
from components.control_plane import ControlPlane
from components.gateway import Gateway
from components.machine import Machine, MachineArgs, server_group
from components.network import Network
from components.node import Node, NodeArgs
from components.pki import Pki
from components.rollout import Memberships, NodeOutput, RolloutOrder
from components.ssh import SshTarget, scripts
from config.models.cluster import Cluster
from config.models.machines import ExistingMachine, Pool


@dataclass(frozen=True, kw_only=True)
class WorkerPoolArgs:
    """One pool. `control_plane` is what its existing nodes wait for before they change."""

    cluster: Cluster
    pool: Pool
    network: Network
    gateway: Gateway
    control_plane: ControlPlane
    pki: Pki
    rollout: RolloutOrder
    # node.env keys that every machine has.
    environment: Mapping[str, str]
    # Files that every Kubernetes node has in its folder.
    node_files: Mapping[str, pulumi.Input[str]]


class WorkerPool(pulumi.ComponentResource):
    """Workers that come up in parallel, and leave and roll `maxUnavailable` at a time."""

    nodes: Sequence[NodeOutput]

    def __init__(
        self, name: str, args: WorkerPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:WorkerPool", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self._args = args
        gates: list[tuple[str, pulumi.Resource]] = []
        nodes: list[NodeOutput] = []
        if args.pool.count:
            group = server_group(name, args.pool.server_group_policy, child)
        for index in range(args.pool.count):
            node_name = args.cluster.node_name(args.pool.name, index)
            predecessors = self._turn(node_name, gates)
            machine = self._machine(node_name, index, group, predecessors, child)
            gates.append((node_name, self._made(machine, child).gate))
            nodes.append(self._output(node_name, machine.address))
        for existing in args.pool.machines:
            predecessors = self._turn(existing.name, gates)
            gates.append((existing.name, self._joined(existing, predecessors, child).gate))
            nodes.append(self._output(existing.name, str(existing.address)))
        self.nodes = nodes
        self.register_outputs({})

    def _turn(self, name: str, before: Memberships) -> pulumi.Output[list[pulumi.Resource]]:
        return self._args.rollout.predecessors(
            name,
            before,
            at_once=self._args.pool.max_unavailable,
            first=self._args.control_plane.gates,
        )

    def _output(self, name: str, address: pulumi.Input[str]) -> NodeOutput:
        return {"name": name, "role": "worker", "pool": self._args.pool.name, "address": address}

    def _machine(
        self,
        name: str,
        index: int,
        group: openstack.compute.ServerGroup,
        predecessors: pulumi.Input[Sequence[pulumi.Resource]],
        child: pulumi.ResourceOptions,
    ) -> Machine:
        args = self._args
        return Machine(
            MachineArgs(
                name=name,
                role="worker",
                index=index,
                cluster_name=args.cluster.cluster_name,
                settings=args.pool.servers,
                network=args.network,
                security_groups=["node", "worker"],
                ssh_user=args.cluster.ssh_user,
                pki=args.pki,
                package_mirrors=args.cluster.package_mirrors,
                server_group=group,
                predecessors=predecessors,
            ),
            child,
        )

    def _made(self, machine: Machine, child: pulumi.ResourceOptions) -> Node:
        contact = machine.install_host_key(
            machine.login(machine.keys.one_time.public_key_openssh),
            via=self._args.gateway.login,
            after=self._args.gateway.ready,
        )
        return self._node(
            machine.name,
            address=machine.address,
            machine_id=machine.server.id,
            provider_id=machine.provider_id,
            login=machine.login(machine.keys.real.public_key_openssh),
            after=[contact],
            child=child,
        )

    def _joined(
        self,
        machine: ExistingMachine,
        predecessors: pulumi.Output[list[pulumi.Resource]],
        child: pulumi.ResourceOptions,
    ) -> Node:
        return self._node(
            machine.name,
            address=str(machine.address),
            machine_id=f"{machine.name}@{machine.address}",
            provider_id=None,
            login=SshTarget(
                address=str(machine.address),
                user=machine.ssh_user or self._args.cluster.ssh_user,
                private_key=self._args.pki.ssh_private_key,
                host_key=machine.host_key,
            ),
            after=predecessors.apply(lambda gates: [*gates, *self._args.gateway.ready]),
            child=child,
        )

    def _node(
        self,
        name: str,
        *,
        address: pulumi.Input[str],
        machine_id: pulumi.Input[str],
        provider_id: pulumi.Input[str] | None,
        login: SshTarget,
        after: pulumi.Input[Sequence[pulumi.Resource]],
        child: pulumi.ResourceOptions,
    ) -> Node:
        args, cluster = self._args, self._args.cluster
        join = pulumi.Output.all(address=address, provider_id=provider_id).apply(
            lambda v: kubeadm.join_file(
                kubeadm.Registration(
                    name=name,
                    address=v["address"],
                    provider_id=v["provider_id"],
                    taints=args.pool.taints,
                    external_cloud_provider=cluster.addons.cloud_controller_manager.enabled,
                    ignore_preflight_errors=cluster.kubeadm.ignore_preflight_errors,
                ),
                control_plane=False,
            )
        )
        return Node(
            NodeArgs(
                name=name,
                role="worker",
                address=address,
                machine_id=machine_id,
                login=login,
                gateway=args.gateway,
                script="worker/worker.sh",
                verb="prepare",
                files={**args.node_files, **scripts("worker"), "kubeadm-join.yaml": join},
                environment={
                    **args.environment,
                    # Workers read the settings in the cluster: a change must make them look.
                    "KUBELET_CONFIG_SHA256": _sum(
                        kubeadm.kubelet_configuration(cluster.kubelet.extra_config)
                    ),
                },
                gate_environment={
                    "NODE_LABELS": ",".join(f"{k}={v}" for k, v in args.pool.labels.items()),
                    "NODE_TAINTS": kubeadm.taints_text(args.pool.taints),
                },
                provider_id="" if provider_id is None else provider_id,
                kubeconfig=args.control_plane.gateway_kubeconfig,
                anchor=args.network.anchor,
                bootstrap_after=after,
                gate_after=[args.control_plane.api_ready],
            ),
            child,
        )


def _sum(document: kubeadm.Document) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
