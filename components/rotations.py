"""The last phases of rotations, which need every node: tokens and SSH keys."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.control_plane import ControlPlane
from components.node import NodeContext
from components.service_account_key import rotate_service_account_key
from components.ssh_key import retire_ssh_keys
from components.worker_pool import WorkerPool


def finish_rotations(
    context: NodeContext, control_plane: ControlPlane, pools: Sequence[WorkerPool]
) -> list[pulumi.Resource]:
    """Have nothing accept what earlier keys have signed, nor earlier SSH keys, if there are any."""
    tokens = rotate_service_account_key(context, control_plane, pools)
    gateway = context.gateway
    nodes = [*control_plane.members, *(node for pool in pools for node in pool.members)]
    after = [
        *(handover for _, handover in gateway.handovers),
        *(node.membership for node in nodes),
        *(control_plane.api_ready, *control_plane.rotations, *tokens),
    ]
    machines = [
        *((name, login, None, server) for name, login, server in gateway.logins),
        *((node.name, node.ssh, gateway.ssh, node.machine_id) for node in nodes),
    ]
    retired = [
        command
        for name, to, via, machine_id in machines
        for command in retire_ssh_keys(
            context,
            name,
            to,
            via=via,
            machine_id=machine_id,
            after=after,
            opts=pulumi.ResourceOptions(),
        )
    ]
    return [*tokens, *retired]
