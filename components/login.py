"""Commands that run where Pulumi runs, and log in to a machine with whichever key it knows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi

from components.context import Context
from components.ssh import CommandOnCreate, SshTarget


def login_command(
    context: Context,
    resource: str,
    run: str,
    name: str,
    to: SshTarget,
    *,
    via: SshTarget | None,
    variables: Mapping[str, pulumi.Input[str]],
    triggers: Sequence[pulumi.Input[str]],
    after: pulumi.Input[Sequence[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource:
    """A command that also gets the login at the machine `name`: MACHINE and KEYS."""
    keys = context.pki.ssh_keys
    return CommandOnCreate(
        resource,
        run,
        {
            "MACHINE": _machine(name, to, via),
            "KEYS": pulumi.Output.all(*(key.private for key in reversed(keys))).apply(json.dumps),
            **variables,
        },
        pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                depends_on=after,
                deleted_with=context.network.anchor,
            ),
        ),
        triggers=triggers,
    )


def _machine(name: str, to: SshTarget, via: SshTarget | None) -> pulumi.Output[str]:
    hosts = pulumi.Output.all(_host(to), None if via is None else _host(via))
    return hosts.apply(lambda both: json.dumps({"name": name, **both[0], "via": both[1]}))


def _host(target: SshTarget) -> Mapping[str, pulumi.Input[str] | int]:
    return {
        "address": target.address,
        "port": target.port,
        "user": target.user,
        "host_key": target.host_key,
    }
