"""Scripts on the active gateway that visit every node: the phases of a rotation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components.control_plane import ControlPlane, control_plane_addresses
from components.node import Node, NodeContext, known_hosts
from components.packing import environment_file, together
from components.ssh import Script, connection


def script_for_every_node(
    context: NodeContext,
    control_plane: ControlPlane,
    nodes: Sequence[Node],
    *,
    purpose: str,
    variables: Mapping[str, pulumi.Input[str]],
    files: Mapping[str, pulumi.Input[str]],
    after: Sequence[pulumi.Resource],
) -> Script:
    """Run `cluster/<purpose>.sh rotate` when every node is a member.

    It runs again when a control plane is another machine, which may have begun with a snapshot.
    """
    cluster = context.cluster
    name = f"{cluster.cluster_name}-{purpose}"
    settings = together(
        {
            **context.variables,
            "NODE_NAME": name,
            "CONTROL_PLANES": control_plane_addresses(cluster),
            **variables,
        }
    )
    return Script(
        name,
        f"cluster/{purpose}.sh rotate",
        target=connection(context.gateway.ssh),
        files={
            "node.env": settings.apply(environment_file),
            "nodes": pulumi.Output.all(*(_line(node) for node in nodes)).apply("".join),
            "kubeconfig": context.gateway_kubeconfig,
            "ssh_key": context.pki.ssh_private_key,
            "known_hosts": known_hosts(*(node.login.to for node in nodes)),
            **files,
        },
        triggers=[node.login.machine_id for node in control_plane.nodes],
        opts=pulumi.ResourceOptions(
            depends_on=[*(node.joined for node in nodes), *after],
            deleted_with=context.network.anchor,
        ),
    )


def _line(node: Node) -> pulumi.Output[str]:
    login = node.login
    return pulumi.Output.from_input(login.to.address).apply(
        lambda address: f"{login.name} {node.role} {login.to.user} {address}\n"
    )
