"""The last phases of rotations, which need every node: tokens, CAs, SSH keys and host keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components.authorities import Phase
from components.context import Context
from components.control_plane import ControlPlane
from components.host_key import retire_host_keys
from components.node import Node, NodeContext
from components.rotation_script import rotation_script
from components.ssh import Script
from components.ssh_key import retire_ssh_keys
from components.worker_pool import WorkerPool


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
        _script_for_every_node(
            "service-account-key",
            context,
            control_plane,
            nodes,
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
        _script_for_every_node(
            "certificate-authorities",
            context,
            control_plane,
            nodes,
            variables={
                "PHASE": authorities.phase.apply(lambda phase: Phase(phase).of_machines.value)
            },
            files={"authority.crt": authorities.newest.cluster.public},
            after=[*control_plane.rotations, *after],
        )
    ]


def _script_for_every_node(
    purpose: str,
    context: NodeContext,
    control_plane: ControlPlane,
    nodes: Sequence[Node],
    *,
    variables: Mapping[str, pulumi.Input[str]],
    files: Mapping[str, pulumi.Input[str]],
    after: Sequence[pulumi.Resource],
) -> Script:
    """Run `cluster/<purpose>.sh rotate` when every node is a member."""
    lines = pulumi.Output.all(*(_line(node) for node in nodes)).apply("".join)
    return rotation_script(
        context.cluster.cluster_name,
        purpose,
        context,
        control_planes=control_plane.nodes,
        visited=nodes,
        variables=variables,
        files={"nodes": lines, **files},
        after=[*(node.joined for node in nodes), *after],
    )


def _line(node: Node) -> pulumi.Output[str]:
    login = node.login
    return pulumi.Output.from_input(login.to.address).apply(
        lambda address: f"{login.name} {node.role} {login.to.user} {address}\n"
    )


def rotation_outputs(
    context: Context, rotations: Sequence[pulumi.Resource]
) -> dict[str, pulumi.Output[object]]:
    """The outputs that the next update continues from; known when every machine shows them."""
    done = pulumi.Output.all(*(each.urn for each in rotations))
    generation = context.cluster.rotation.certificate_authorities
    ssh_keys = (key.private for key in context.pki.ssh_keys)
    return {
        "hostKeys": pulumi.Output.all(context.host_key_rotation, done).apply(
            lambda values: values[0].shown
        ),
        "certificateAuthorities": pulumi.Output.all(context.pki.authorities.phase, done).apply(
            lambda values: {"generation": generation, "phase": Phase(values[0]).reached.value}
        ),
        "sshPrivateKey": pulumi.Output.all(context.ssh_key_rotation, *ssh_keys, done).apply(
            lambda values: values[values[0].shown]
        ),
    }
