"""The rotation of the cluster's SSH key: machines accept the new one, and later no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi

from components.context import Context
from components.machine_login import MachineLogin, login_command


def accept_ssh_key(
    context: Context,
    login: MachineLogin,
    *,
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Have a machine accept the newest key, before anything connects with it.

    Until the rotation is done, it accepts the older ones too: commands of the last update, which
    run when something is replaced, connect with them. There is nothing to do without a second
    generation.
    """
    if len(context.pki.ssh_keys) == 1:
        return []
    accept = _rotation_and_keys(context).apply(
        lambda values: json.dumps([values[-1], *(values[each] for each in values[0].in_use)])
    )
    return [
        login_command(
            context,
            login,
            "ssh-key",
            "ssh_key accept",
            variables={"ACCEPT": accept},
            trigger=context.pki.ssh_public_key,
            after=after,
            opts=opts,
        )
    ]


def retire_ssh_keys(
    context: Context, login: MachineLogin, *, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Have a machine refuse all keys but the newest, when nothing connects with one of them."""
    if len(context.pki.ssh_keys) == 1:
        return []
    retire = _rotation_and_keys(context).apply(
        # Two texts of the user may be one key.
        lambda values: json.dumps(
            [key for key in (values[each] for each in values[0].retired) if key != values[-1]]
        )
    )
    return [
        login_command(
            context,
            login,
            "only-ssh-key",
            "ssh_key only",
            variables={"RETIRE": retire},
            trigger=_rotation_and_keys(context).apply(lambda values: values[0].trigger(values[-1])),
            after=after,
        )
    ]


def _rotation_and_keys(context: Context) -> pulumi.Output[list[Any]]:
    """The rotation, and the public key of each generation in the place of its number."""
    public = (key.public for key in context.pki.ssh_keys)
    return pulumi.Output.unsecret(pulumi.Output.all(context.ssh_key_rotation, *public))
