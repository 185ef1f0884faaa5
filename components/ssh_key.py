"""The rotation of the cluster's SSH key: machines accept the new one, and later no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi

from components.context import Context
from components.ssh import CommandOnCreate, SshTarget


def accept_ssh_key(
    context: Context,
    name: str,
    to: SshTarget,
    *,
    via: SshTarget | None,
    machine_id: pulumi.Input[str],
    after: pulumi.Input[Sequence[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Have a machine accept the newest key, before anything connects with it.

    Until the rotation is done, it accepts the older ones too: commands of the last update, which
    run when something is replaced, connect with them. There is nothing to do without a second
    generation.
    """
    if len(context.pki.ssh_keys) == 1:
        return []
    newest = context.pki.ssh_public_key
    accept = pulumi.Output.all(newest, context.ssh_keys_in_use).apply(
        lambda both: json.dumps([both[0], *both[1]])
    )
    return [_command(context, name, "ssh-key", "accept", to, via, machine_id, after, opts, accept)]


def retire_ssh_keys(
    context: Context,
    name: str,
    to: SshTarget,
    *,
    via: SshTarget | None,
    machine_id: pulumi.Input[str],
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Have a machine refuse all keys but the newest, when nothing connects with one of them."""
    keys = context.pki.ssh_keys
    if len(keys) == 1:
        return []
    retire = pulumi.Output.all(*(key.public for key in keys[:-1])).apply(json.dumps)
    return [
        _command(context, name, "only-ssh-key", "only", to, via, machine_id, after, opts, retire)
    ]


def _command(
    context: Context,
    name: str,
    resource: str,
    verb: str,
    to: SshTarget,
    via: SshTarget | None,
    machine_id: pulumi.Input[str],
    after: pulumi.Input[Sequence[pulumi.Resource]],
    opts: pulumi.ResourceOptions,
    public: pulumi.Output[str],
) -> pulumi.Resource:
    keys = context.pki.ssh_keys
    return CommandOnCreate(
        f"{name}-{resource}",
        f"ssh_key {verb}",
        {
            "MACHINE": _machine(name, to, via),
            "KEYS": pulumi.Output.all(*(key.private for key in reversed(keys))).apply(json.dumps),
            "ACCEPT" if verb == "accept" else "RETIRE": public,
        },
        pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                depends_on=after,
                deleted_with=context.network.anchor,
            ),
        ),
        triggers=[machine_id, context.pki.ssh_public_key],
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
