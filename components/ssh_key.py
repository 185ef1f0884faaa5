"""The rotation of the cluster's SSH key: machines accept the new one, and later no other."""

from __future__ import annotations

import json
from collections.abc import Sequence

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
    newest = context.pki.ssh_public_key
    accept = pulumi.Output.all(newest, context.ssh_keys_in_use).apply(
        lambda both: json.dumps([both[0], *both[1]])
    )
    return [
        login_command(
            context,
            login,
            "ssh-key",
            "ssh_key accept",
            variables={"ACCEPT": accept},
            newest=newest,
            after=after,
            opts=opts,
        )
    ]


def retire_ssh_keys(
    context: Context, login: MachineLogin, *, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Have a machine refuse all keys but the newest, when nothing connects with one of them."""
    keys = context.pki.ssh_keys
    if len(keys) == 1:
        return []
    retire = pulumi.Output.all(*(key.public for key in keys)).apply(
        # Two texts of the user may be one key.
        lambda public: json.dumps([key for key in public[:-1] if key != public[-1]])
    )
    return [
        login_command(
            context,
            login,
            "only-ssh-key",
            "ssh_key only",
            variables={"RETIRE": retire},
            newest=context.pki.ssh_public_key,
            after=after,
        )
    ]
