"""The login at a machine, what is copied there first, and commands that log in with any key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.context import Context
from components.key_pair import KeyPair
from components.ssh import CommandOnCreate, CopiedScripts, SshTarget, connection


@dataclass(frozen=True, kw_only=True)
class MachineLogin:
    """A machine and the way to it, with the newest SSH key and host key."""

    name: str
    to: SshTarget
    via: SshTarget | None
    # Changes when another machine takes the name.
    machine_id: pulumi.Input[str]
    # Every generation, the first one first; none if they are the machine's own.
    host_keys: Sequence[KeyPair]


def copy_scripts(
    login: MachineLogin,
    *,
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource:
    """Copy the node scripts to a machine, before any of them runs there."""
    return CopiedScripts(
        f"{login.name}-scripts",
        target=connection(login.to, via=login.via),
        # A machine that exists already may get another disk, or another user.
        triggers=[login.machine_id, login.to.user, login.to.host_key],
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=after)),
    )


def login_command(
    context: Context,
    login: MachineLogin,
    purpose: str,
    run: str,
    *,
    variables: Mapping[str, pulumi.Input[str]],
    trigger: pulumi.Input[str],
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions | None = None,
) -> pulumi.Resource:
    """A command that also gets MACHINE and KEYS; runs for each machine and each `trigger`."""
    private = [key.private for key in reversed(context.pki.ssh_keys)]
    return CommandOnCreate(
        f"{login.name}-{purpose}",
        run,
        {
            "MACHINE": _machine(login),
            "KEYS": pulumi.Output.all(*private).apply(json.dumps),
            **variables,
        },
        pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(depends_on=after, deleted_with=context.network.anchor),
        ),
        triggers=[login.machine_id, trigger],
    )


def _machine(login: MachineLogin) -> pulumi.Output[str]:
    hosts = pulumi.Output.all(_host(login.to), None if login.via is None else _host(login.via))
    return hosts.apply(lambda both: json.dumps({"name": login.name, **both[0], "via": both[1]}))


def _host(target: SshTarget) -> Mapping[str, pulumi.Input[str] | int]:
    return {
        "address": target.address,
        "port": target.port,
        "user": target.user,
        "host_key": target.host_key,
    }
