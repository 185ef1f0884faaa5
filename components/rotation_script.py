"""Rotations that several machines make together, led by a script on the active gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components.node import Node, NodeContext, known_hosts
from components.outputs import together
from components.packing import environment_file
from components.ssh import Script, connection


def rotation_script(
    owner: str,
    purpose: str,
    context: NodeContext,
    *,
    control_planes: Sequence[Node],
    visited: Sequence[Node],
    variables: Mapping[str, pulumi.Input[str]],
    files: Mapping[str, pulumi.Input[str]],
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions | None = None,
) -> Script:
    """Run `cluster/<purpose>.sh rotate`, which logs in to the machines that are visited.

    It runs again when a control plane is another machine, which may have begun with a snapshot.
    """
    name, addresses = f"{owner}-{purpose}", context.cluster.control_plane_addresses
    settings = together(
        {
            **context.variables,
            "NODE_NAME": name,
            "CONTROL_PLANES": " ".join(map(str, addresses)),
            **variables,
        }
    )
    own = pulumi.ResourceOptions(depends_on=after, deleted_with=context.network.anchor)
    return Script(
        name,
        f"cluster/{purpose}.sh rotate",
        target=connection(context.gateway.ssh),
        files={
            "node.env": settings.apply(environment_file),
            "kubeconfig": context.gateway_kubeconfig,
            "ssh_key": context.pki.ssh_private_key,
            "known_hosts": known_hosts(*(node.login.to for node in visited)),
            **files,
        },
        triggers=[node.login.machine_id for node in control_planes],
        opts=pulumi.ResourceOptions.merge(opts, own),
    )
