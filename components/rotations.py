"""The last phases of rotations, which need every node: tokens, CAs, SSH keys and host keys."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.authorities import Phase
from components.control_plane import ControlPlane
from components.every_node import script_for_every_node
from components.host_key import retire_host_keys
from components.node import Node, NodeContext
from components.ssh import Script
from components.ssh_key import retire_ssh_keys
from components.worker_pool import WorkerPool
from config.models.cluster import Cluster


def finish_rotations(
    context: NodeContext, control_plane: ControlPlane, pools: Sequence[WorkerPool]
) -> list[pulumi.Resource]:
    """Have nothing accept or show what is of earlier generations, if there are any."""
    nodes = [*control_plane.nodes, *(node for pool in pools for node in pool.nodes)]
    # Each of them restarts the API servers: one after the other.
    tokens = _service_account_key(context, control_plane, nodes)
    authorities = _certificate_authorities(context, control_plane, nodes, tokens)
    after = [
        *context.gateway.handovers.values(),
        *(node.joined for node in nodes),
        *(control_plane.api_ready, *control_plane.rotations, *tokens, *authorities),
    ]
    retired = [
        command
        for login in [*context.gateway.logins, *(node.login for node in nodes)]
        for command in (
            *retire_ssh_keys(context, login, after=after),
            *retire_host_keys(context, login, after=after),
        )
    ]
    return [*tokens, *authorities, *retired]


def _service_account_key(
    context: NodeContext, control_plane: ControlPlane, nodes: Sequence[Node]
) -> Sequence[Script]:
    """Replace the key that signs service accounts' tokens, and what it has signed."""
    if context.cluster.rotation.service_account_key == 1:
        return []
    return [
        script_for_every_node(
            context,
            control_plane,
            nodes,
            purpose="service-account-key",
            variables={},
            files={"service-account.pub": context.pki.service_accounts[-1].public},
            after=control_plane.rotations,
        )
    ]


def _certificate_authorities(
    context: NodeContext,
    control_plane: ControlPlane,
    nodes: Sequence[Node],
    after: Sequence[pulumi.Resource],
) -> Sequence[Script]:
    """Have every machine do what this phase of the newest certificate authorities is about."""
    if context.cluster.rotation.certificate_authorities == 1:
        return []
    authorities = context.pki.authorities
    return [
        script_for_every_node(
            context,
            control_plane,
            nodes,
            purpose="certificate-authorities",
            variables={
                "PHASE": authorities.phase.apply(lambda phase: Phase(phase).of_machines.value)
            },
            files={"authority.crt": authorities.newest.cluster.public},
            after=[*control_plane.rotations, *after],
        )
    ]


def rotations_shown(
    cluster: Cluster, phase: pulumi.Output[str], rotations: Sequence[pulumi.Resource]
) -> dict[str, pulumi.Output[object]]:
    """The outputs that the next update continues from; known when every machine shows them."""
    done = pulumi.Output.all(*(each.urn for each in rotations))
    generation = cluster.rotation.certificate_authorities
    return {
        "hostKeys": done.apply(lambda _: cluster.rotation.host_keys),
        "certificateAuthorities": pulumi.Output.all(phase, done).apply(
            lambda values: {"generation": generation, "phase": Phase(values[0]).reached.value}
        ),
    }
