"""A machine as a Kubernetes node: configured over SSH, then a member of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial

import pulumi

from cloud.login import login_variables
from components.context import Context
from components.gateway import Gateway
from components.machine_folder import node_files
from components.machine_login import MachineLogin
from components.outputs import also, together
from components.packing import environment_file
from components.ssh import (
    CommandOnDelete,
    Script,
    SshTarget,
    connection,
)
from config import ports
from config.values.kubernetes import seconds

# Seconds that a node takes at most to join or to leave, in addition to the limits of the
# configuration.
_MEMBERSHIP_SECONDS = 100 * 60


def known_hosts(*machines: SshTarget) -> pulumi.Output[str]:
    """The host keys of these machines, as ssh reads them."""
    lines = [
        pulumi.Output.all(machine.address, machine.host_key).apply(
            lambda both: f"{both[0]} {both[1].strip()}\n"
        )
        for machine in machines
    ]
    return pulumi.Output.all(*lines).apply("".join)


@dataclass(frozen=True, kw_only=True)
class NodeContext(Context):
    """The context of control planes and workers."""

    gateway: Gateway

    @staticmethod
    def behind(gateway: Gateway, context: Context) -> NodeContext:
        """The context of nodes that are reached through this gateway."""
        shared = {each.name: getattr(context, each.name) for each in fields(context)}
        return NodeContext(**shared, gateway=gateway)

    @cached_property
    def files(self) -> Mapping[str, pulumi.Input[str]]:
        """The files that every node has in its folder."""
        return node_files(self.cluster, self.pki.authorities.bundle())

    @cached_property
    def endpoint(self) -> pulumi.Output[str]:
        """The API at the floating IP, a URL."""
        return pulumi.Output.concat("https://", self.gateway.floating_ip, f":{ports.API}")

    @cached_property
    def kubeconfig(self) -> pulumi.Output[str]:
        """The program's kubeconfig for commands that run where Pulumi runs."""
        return self.pki.kubeconfig(self.pki.program, self.endpoint)

    @cached_property
    def gateway_kubeconfig(self) -> pulumi.Output[str]:
        """The program's kubeconfig for what runs on a gateway: the API at the VIP."""
        vip = self.cluster.addresses.vip
        return self.pki.kubeconfig(self.pki.program, f"https://{vip}:{ports.API}")


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Installs what a machine needs while it waits for its turn to be configured."""

    # Next to those of every node.
    files: Mapping[str, pulumi.Input[str]]
    after: Sequence[pulumi.Resource]


@dataclass(frozen=True, kw_only=True)
class NodeArgs:
    """One node, whatever its role and whoever created its machine."""

    login: MachineLogin
    role: str
    address: pulumi.Input[str]
    # As the Node says it; None for a machine that is not a server of this cloud.
    provider_id: pulumi.Input[str] | None
    # The role's own, next to those of every node.
    files: Mapping[str, pulumi.Input[str]]
    variables: Mapping[str, pulumi.Input[str]]
    # node.env keys of the scripts on the gateway.
    membership_variables: Mapping[str, str] = field(default_factory=dict)
    # Nodes with the same queue are drained one after the other.
    drain_queue: str | None = None
    # What has the machine show and accept the keys of `login`.
    keys: Sequence[pulumi.Resource]
    # None for a machine that is configured as early as it could be prepared.
    preparation: Preparation | None = None
    configure_after: pulumi.Input[Sequence[pulumi.Resource]]
    # Attached to the server; it lets go of them when it is stopped.
    volumes: Sequence[pulumi.Resource] = ()
    join_after: Sequence[pulumi.Resource] = ()
    # Deleted only when the node has left.
    needed_to_leave: Sequence[pulumi.Resource] = ()


class Node:
    """A machine that is `configured`, has a `membership`, and has `joined`.

    A control plane joins when it is configured, a worker by `joined`, which then waits for both
    until they are Ready. A deleted membership drains the node and takes it out of the cluster. It
    exists before anything lets the node join: of what fails half-way, the engine knows nothing. A
    server that does not answer then is stopped by its `fence`, before its pods run anywhere else.
    """

    def __init__(self, context: NodeContext, args: NodeArgs, opts: pulumi.ResourceOptions) -> None:
        name, login = args.login.name, args.login
        self.login = login
        self.role = args.role
        variables = together(
            {
                **context.variables,
                **args.variables,
                "ROLE": args.role,
                "NODE_NAME": name,
                "NODE_IP": args.address,
            }
        )
        # A machine that takes the place of a dead one joins when that one is fenced.
        fence: list[pulumi.Resource] = []
        if args.provider_id is not None:
            fence.append(self._fence(context, args, args.provider_id, opts))
        on_gateway = self._on_gateway(context, args, variables)
        self.membership = on_gateway(
            f"{name}-membership",
            None,
            on_delete="cluster/drain.sh drain",
            queue=args.drain_queue,
            triggers=[login.machine_id],
            # A gateway that goes together with this node goes later: this runs on it. It could not
            # reset a machine that does not know its keys yet.
            opts=self._options(
                context,
                opts,
                [
                    *context.gateway.handovers.values(),
                    *fence,
                    *args.keys,
                    *args.needed_to_leave,
                ],
            ),
        )
        on_machine = partial(Script, target=connection(login.to, via=login.via))
        files = {**context.files, "node.env": variables.apply(environment_file)}
        prepared: list[pulumi.Resource] = []
        if args.preparation is not None:
            prepared.append(
                on_machine(
                    f"{name}-prepare",
                    f"{args.role}/{args.role}.sh prepare",
                    files={**files, **args.preparation.files},
                    triggers=[login.machine_id],
                    opts=pulumi.ResourceOptions.merge(
                        opts,
                        pulumi.ResourceOptions(
                            depends_on=args.preparation.after,
                            # Done once for each machine.
                            ignore_changes=["connection", "create", "stdin"],
                        ),
                    ),
                )
            )
        joins_when_configured = args.role == "control-plane"
        first = [self.membership] if joins_when_configured else []
        self.configured = on_machine(
            f"{name}-configure",
            f"{args.role}/{args.role}.sh configure",
            files={**files, **args.files},
            # What has left has to join again.
            triggers=[login.machine_id, *(each.id for each in first)],
            opts=pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    depends_on=also(args.configure_after, *prepared, *fence, *first)
                ),
            ),
        )
        self.joined = on_gateway(
            f"{name}-join",
            "cluster/join.sh join",
            triggers=[login.machine_id, self.membership.id],
            opts=self._options(context, opts, [self.configured, self.membership, *args.join_after]),
        )

    @staticmethod
    def _on_gateway(
        context: NodeContext, args: NodeArgs, variables: pulumi.Output[dict[str, str]]
    ) -> Callable[..., Script]:
        """What lets the node join or leave: scripts on the active gateway, one at a time."""
        login, timeouts = args.login, context.cluster.timeouts
        drain, ready = seconds(timeouts.drain), seconds(timeouts.ready)
        return partial(
            Script,
            lock=f"{login.name}-membership",
            seconds=_MEMBERSHIP_SECONDS + drain + ready,
            target=connection(context.gateway.ssh),
            files={
                "node.env": pulumi.Output.all(variables, args.provider_id).apply(
                    lambda values: environment_file(
                        {
                            **values[0],
                            **args.membership_variables,
                            "SSH_USER": login.to.user,
                            "PROVIDER_ID": values[1] or "",
                            "DRAIN_TIMEOUT": drain,
                            "READY_TIMEOUT": ready,
                        }
                    )
                ),
                "kubeconfig": context.gateway_kubeconfig,
                "ssh_key": login.to.private_key,
                "known_hosts": known_hosts(login.to),
            },
        )

    @staticmethod
    def _options(
        context: NodeContext, opts: pulumi.ResourceOptions, after: Sequence[pulumi.Resource]
    ) -> pulumi.ResourceOptions:
        # Deleted with the whole cluster, it does nothing: no need to drain then.
        anchor = context.network.anchor
        return pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=after, deleted_with=anchor)
        )

    def _fence(
        self,
        context: NodeContext,
        args: NodeArgs,
        provider_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
    ) -> pulumi.Resource:
        """Stop the server on delete, if the drain before found it dead."""
        return CommandOnDelete(
            f"{args.login.name}-fence",
            "fence",
            {
                **login_variables(),
                "NODE": args.login.name,
                "PROVIDER_ID": provider_id,
                "KUBECONFIG_TEXT": context.kubeconfig,
            },
            pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    # It asks the API, which a gateway that goes as well leads to.
                    depends_on=[
                        *context.gateway.handovers.values(),
                        *args.volumes,
                    ],
                    deleted_with=context.network.anchor,
                ),
            ),
            triggers=[args.login.machine_id],
        )
