"""The last phases of rotations, which need every node: tokens, SSH keys and host keys."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.control_plane import ControlPlane
from components.host_key import retire_host_keys
from components.node import NodeContext
from components.service_account_key import rotate_service_account_key
from components.ssh_key import retire_ssh_keys
from components.worker_pool import WorkerPool
from config.models.cluster import Cluster


def finish_rotations(
    context: NodeContext, control_plane: ControlPlane, pools: Sequence[WorkerPool]
) -> list[pulumi.Resource]:
    """Have nothing accept or show what is of earlier generations, if there are any."""
    tokens = rotate_service_account_key(context, control_plane, pools)
    nodes = [*control_plane.members, *(node for pool in pools for node in pool.members)]
    after = [
        *(handover for _, handover in context.gateway.handovers),
        *(node.membership for node in nodes),
        *(control_plane.api_ready, *control_plane.rotations, *tokens),
    ]
    retired = [
        command
        for login in [*context.gateway.logins, *(node.login for node in nodes)]
        for command in (
            *retire_ssh_keys(context, login, after=after),
            *retire_host_keys(context, login, after=after),
        )
    ]
    return [*tokens, *retired]


def host_keys_shown(cluster: Cluster, rotations: Sequence[pulumi.Resource]) -> pulumi.Output[int]:
    """The generation of the host keys; known when every server shows that one only."""
    return pulumi.Output.all(*(each.urn for each in rotations)).apply(
        lambda _: cluster.rotation.host_keys
    )
