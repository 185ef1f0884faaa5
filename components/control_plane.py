"""1, 3 or 5 control planes with stacked etcd. None of them is special."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_openstack as openstack

from components import backups, kubeadm
from components.gateway import Gateway
from components.machine import Machine, MachineArgs, server_group
from components.network import Network
from components.node import MEMBERSHIP_SCRIPTS, Node, NodeArgs
from components.pki import Pki
from components.rollout import Memberships, NodeOutput, RolloutOrder
from components.ssh import Script, connection, environment_file, scripts
from config.models.cluster import Cluster
from config.models.machines import Taint

CONTROL_PLANE_TAINT = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")


@dataclass(frozen=True, kw_only=True)
class ControlPlaneArgs:
    """What the control planes are made of, and what they are given."""

    cluster: Cluster
    network: Network
    gateway: Gateway
    pki: Pki
    rollout: RolloutOrder
    # node.env keys that every machine has.
    environment: Mapping[str, str]
    # Files that every Kubernetes node has in its folder.
    node_files: Mapping[str, pulumi.Input[str]]
    # Of the bucket's access key.
    backup_secret_key: pulumi.Input[str] | None
    # Names and addresses in the API server's certificate, beside the nodes' own.
    certificate_names: Sequence[pulumi.Input[str]]


class ControlPlane(pulumi.ComponentResource):
    """The control planes; servers come up in parallel, etcd members join one at a time."""

    # Done once, when the API first answers through the floating IP.
    api_ready: Script
    # For what runs on a gateway: the API at the VIP.
    gateway_kubeconfig: pulumi.Output[str]
    gates: Memberships
    nodes: Sequence[NodeOutput]
    # Of Kubernetes; known when every control plane has it. The engine takes the stack's outputs all
    # at once, so a run that fails here leaves those of the last good one.
    version: pulumi.Output[str]

    def __init__(
        self, name: str, args: ControlPlaneArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("openstack-kubernetes:cluster:ControlPlane", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        self._args = args
        self.gateway_kubeconfig = args.pki.kubeconfig(
            args.cluster.cluster_name, f"https://{args.cluster.addresses.vip}:6443"
        )
        group = server_group(name, args.cluster.control_plane.server_group_policy, child)
        gates: list[tuple[str, pulumi.Resource]] = []
        nodes: list[NodeOutput] = []
        bootstraps: list[pulumi.Resource] = []
        for index in range(args.cluster.control_plane_count):
            machine = self._machine(index, group, gates, child)
            node = self._node(index, machine, bootstraps[-1:], gates[-1:], child)
            bootstraps.append(node.bootstrap)
            gates.append((machine.name, node.gate))
            nodes.append(
                {"name": machine.name, "role": "control-plane", "address": machine.address}
            )
        self.gates = gates
        self.nodes = nodes
        self.version = pulumi.Output.all(*(gate.urn for _, gate in gates)).apply(
            lambda _: args.cluster.kubernetes_version
        )
        self.api_ready = Script(
            f"{name}-api",
            "cluster/gate.sh",
            "api",
            login=connection(args.gateway.login),
            files={
                **scripts(*MEMBERSHIP_SCRIPTS),
                "node.env": environment_file({**args.environment, "NODE_NAME": name}),
                "kubeconfig": self.gateway_kubeconfig,
            },
            opts=pulumi.ResourceOptions.merge(
                child,
                pulumi.ResourceOptions(
                    depends_on=args.rollout.control_planes(gates),
                    deleted_with=args.network.anchor,
                    ignore_changes=["connection", "create", "stdin"],
                ),
            ),
        )
        self.register_outputs({})

    def _machine(
        self,
        index: int,
        group: openstack.compute.ServerGroup,
        gates: Memberships,
        child: pulumi.ResourceOptions,
    ) -> Machine:
        args = self._args
        name = args.cluster.node_name("control-plane", index)
        return Machine(
            MachineArgs(
                name=name,
                role="control-plane",
                index=index,
                cluster_name=args.cluster.cluster_name,
                settings=args.cluster.control_plane_servers,
                network=args.network,
                security_groups=["node", "control-plane"],
                ssh_user=args.cluster.ssh_user,
                pki=args.pki,
                package_mirrors=args.cluster.package_mirrors,
                address=str(args.cluster.addresses.control_planes[index]),
                server_group=group,
                predecessors=args.rollout.predecessors(
                    name,
                    gates,
                    first=args.gateway.gates,
                ),
            ),
            child,
        )

    def _node(
        self,
        index: int,
        machine: Machine,
        previous: Sequence[pulumi.Resource],
        gate_before: Memberships,
        child: pulumi.ResourceOptions,
    ) -> Node:
        args, pki = self._args, self._args.pki
        contact = machine.install_host_key(
            machine.login(machine.keys.one_time.public_key_openssh),
            via=args.gateway.login,
            after=args.gateway.ready,
        )
        volume = args.cluster.control_plane.etcd_volume
        etcd_volume = None if volume is None else machine.volume("etcd", volume.size, volume.type)
        return Node(
            NodeArgs(
                name=machine.name,
                role="control-plane",
                address=machine.address,
                machine_id=machine.server.id,
                login=machine.login(machine.keys.real.public_key_openssh),
                gateway=args.gateway,
                script="control-plane/control-plane.sh",
                verb="converge",
                files={
                    **args.node_files,
                    **scripts("cluster", "control-plane", "backup"),
                    **backups.files(args.cluster.backup, args.backup_secret_key),
                    **self._kubeadm_files(index, machine),
                    **self._kubernetes_files(),
                    "kubeconfig": pki.kubeconfig(
                        args.cluster.cluster_name,
                        f"https://{args.cluster.api_name}:{kubeadm.API_PORT}",
                    ),
                },
                environment={
                    **args.environment,
                    "INITIALISE": "true" if index == 0 else "false",
                    "ETCD_DEVICE": "" if etcd_volume is None else _device(etcd_volume.volume_id),
                    **backups.backup_variables(args.cluster, initialises=index == 0),
                },
                provider_id=machine.provider_id,
                kubeconfig=self.gateway_kubeconfig,
                anchor=args.network.anchor,
                bootstrap_after=[
                    contact,
                    *previous,
                    *([] if etcd_volume is None else [etcd_volume]),
                ],
                # Costs no time, for they join in turn anyway; and in the other order they leave,
                # also those that the very last update has made.
                gate_after=[gate for _, gate in gate_before],
            ),
            child,
        )

    def _kubeadm_files(self, index: int, machine: Machine) -> dict[str, pulumi.Input[str]]:
        cluster = self._args.cluster
        values = pulumi.Output.all(
            provider_id=machine.provider_id, names=list(self._args.certificate_names)
        )

        def registration(provider_id: str) -> kubeadm.Registration:
            return kubeadm.Registration(
                name=machine.name,
                address=str(cluster.addresses.control_planes[index]),
                provider_id=provider_id,
                taints=[CONTROL_PLANE_TAINT],
                external_cloud_provider=cluster.addons.cloud_controller_manager.enabled,
                ignore_preflight_errors=cluster.kubeadm.ignore_preflight_errors,
            )

        def spec(names: Sequence[str]) -> kubeadm.ClusterSpec:
            return kubeadm.ClusterSpec(
                name=cluster.cluster_name,
                kubernetes_version=cluster.kubernetes_version,
                api_name=cluster.api_name,
                certificate_names=names,
                pod_cidr=str(cluster.pod_cidr),
                service_cidr=str(cluster.service_cidr),
                etcd=cluster.etcd,
                audit=cluster.audit_log,
                oidc=cluster.oidc,
                image_registry=cluster.addons.image_registry,
                kubelet=cluster.kubelet.extra_config,
                kube_proxy=cluster.kube_proxy.extra_config,
            )

        return {
            "kubeadm-init.yaml": values.apply(
                lambda v: kubeadm.init_file(spec(v["names"]), registration(v["provider_id"]))
            ),
            "kubeadm-join.yaml": values.apply(
                lambda v: kubeadm.join_file(registration(v["provider_id"]), control_plane=True)
            ),
        }

    def _kubernetes_files(self) -> dict[str, pulumi.Input[str]]:
        cluster, pki = self._args.cluster, self._args.pki
        files: dict[str, pulumi.Input[str]] = {
            "pki/ca.crt": pki.cluster_ca.public,
            "pki/ca.key": pki.cluster_ca.private,
            "pki/front-proxy-ca.crt": pki.front_proxy_ca.public,
            "pki/front-proxy-ca.key": pki.front_proxy_ca.private,
            "pki/etcd/ca.crt": pki.etcd_ca.public,
            "pki/etcd/ca.key": pki.etcd_ca.private,
            "pki/sa.pub": pki.service_account.public,
            "pki/sa.key": pki.service_account.private,
            "etc/encryption.yaml": pki.encryption_key.apply(
                lambda key: kubeadm.encryption_configuration(
                    key, encrypt=cluster.encryption_at_rest
                )
            ),
        }
        if cluster.audit_log.enabled:
            files["etc/audit-policy.yaml"] = kubeadm.audit_policy(cluster.audit_log.policy)
        if cluster.oidc is not None and cluster.oidc.ca_certificate is not None:
            files["etc/oidc-ca.crt"] = cluster.oidc.ca_certificate
        return files


def _device(volume_id: pulumi.Output[str]) -> pulumi.Output[str]:
    """A glob for the volume's device: virtio cuts a disk's serial number to 20 characters."""
    return volume_id.apply(lambda volume: f"/dev/disk/by-id/*{volume[:20]}*")
