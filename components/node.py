"""A machine as a Kubernetes node: bootstrap on the machine, then the gate on the gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.gateway import Gateway
from components.ssh import Script, SshTarget, connection, environment_file, scripts, together

MEMBERSHIP_SCRIPTS = ("lib", "cluster")


@dataclass(frozen=True, kw_only=True)
class NodeArgs:
    """One node, whatever its role and whoever made its machine."""

    name: str
    role: str
    address: pulumi.Input[str]
    # Changes when the machine behind the name is another one.
    machine_id: pulumi.Input[str]
    login: SshTarget
    gateway: Gateway
    script: str
    verb: str
    files: Mapping[str, pulumi.Input[str]]
    # node.env keys beside role, name and address, and further ones for the gate.
    environment: Mapping[str, pulumi.Input[str]]
    gate_environment: Mapping[str, str] = field(default_factory=dict)
    # As the Node says it; empty for a machine that is not a server of this cloud.
    provider_id: pulumi.Input[str] = ""
    kubeconfig: pulumi.Input[str]
    # Goes only with the whole cluster: the gate need not drain then.
    anchor: pulumi.Resource
    bootstrap_after: pulumi.Input[Sequence[pulumi.Resource]] = ()
    gate_after: Sequence[pulumi.Resource] = ()


class Node:
    """`bootstrap` prepares the machine; `gate` waits until it is Ready and drains it on delete."""

    def __init__(self, args: NodeArgs, opts: pulumi.ResourceOptions) -> None:
        self.name = args.name
        environment = together(
            {
                **args.environment,
                "ROLE": args.role,
                "NODE_NAME": args.name,
                "NODE_IP": args.address,
            }
        )
        self.bootstrap = Script(
            f"{args.name}-configure",
            args.script,
            args.verb,
            login=connection(args.login, via=args.gateway.login),
            files={
                **scripts("lib", "host-key", "install", "node"),
                "node.env": environment.apply(environment_file),
                **args.files,
            },
            triggers=[args.machine_id],
            opts=pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(depends_on=args.bootstrap_after)
            ),
        )
        self.gate = Script(
            f"{args.name}-membership",
            "cluster/gate.sh",
            "ready",
            on_leave="leave",
            login=connection(args.gateway.login),
            files={
                **scripts(*MEMBERSHIP_SCRIPTS),
                "node.env": pulumi.Output.all(environment, args.provider_id).apply(
                    lambda values: environment_file(
                        {
                            **values[0],
                            **args.gate_environment,
                            "SSH_USER": args.login.user,
                            "PROVIDER_ID": values[1],
                        }
                    )
                ),
                "kubeconfig": args.kubeconfig,
                "ssh_key": args.login.private_key,
                "known_hosts": pulumi.Output.concat(args.address, " ", args.login.host_key),
            },
            triggers=[args.machine_id],
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    # A gateway that goes together with this node goes later: the gate runs on it.
                    depends_on=[
                        self.bootstrap,
                        *(handover for _, handover in args.gateway.gates),
                        *args.gate_after,
                    ],
                    deleted_with=args.anchor,
                ),
            ),
        )
