"""The rotation of the key that signs service accounts' tokens, when every node is a member."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.control_plane import ControlPlane, control_plane_addresses
from components.node import CLUSTER_SCRIPTS, Node, NodeContext, known_hosts
from components.ssh import Script, connection, environment_file, scripts
from components.worker_pool import WorkerPool


def rotate_service_account_key(
    context: NodeContext, control_plane: ControlPlane, pools: Sequence[WorkerPool]
) -> Sequence[Script]:
    """Replace the key, and what it has signed, if there is more than one generation."""
    cluster = context.cluster
    if cluster.rotation.service_account_key == 1:
        return []
    name = f"{cluster.cluster_name}-service-account-key"
    nodes = [*control_plane.members, *(node for pool in pools for node in pool.members)]
    return [
        Script(
            name,
            "cluster/service-account-key.sh rotate",
            target=connection(context.gateway.ssh),
            files={
                **scripts(*CLUSTER_SCRIPTS),
                "node.env": environment_file(
                    {
                        **context.variables,
                        "NODE_NAME": name,
                        "CONTROL_PLANES": control_plane_addresses(cluster),
                    }
                ),
                "service-account.pub": context.pki.service_accounts[-1].public,
                "nodes": pulumi.Output.all(*(_line(node) for node in nodes)).apply("".join),
                "kubeconfig": context.gateway_kubeconfig,
                "ssh_key": context.pki.ssh_private_key,
                "known_hosts": known_hosts(*(node.login.to for node in nodes)),
            },
            # A new control plane may have begun with a snapshot, and trusts all keys then.
            triggers=[node.login.machine_id for node in control_plane.members],
            opts=pulumi.ResourceOptions(
                depends_on=[*(node.membership for node in nodes), *control_plane.rotations],
                deleted_with=context.network.anchor,
            ),
        )
    ]


def _line(node: Node) -> pulumi.Output[str]:
    login = node.login
    return pulumi.Output.from_input(login.to.address).apply(
        lambda address: f"{login.name} {node.role} {login.to.user} {address}\n"
    )
