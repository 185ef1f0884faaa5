"""The rotation of SSH host keys: servers show the new one, and later no other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pulumi

from components.context import Context
from components.login import login_command
from components.pki import KeyPair
from components.ssh import SshTarget, loader, pack, scripts

# Seconds for the host key, which takes one: the machine has booted when it begins.
HOST_KEY_SECONDS = 300


def host_key_files(name: str, newest: KeyPair) -> dict[str, pulumi.Input[str]]:
    """The folder of host-key.sh."""
    return {
        **scripts("lib", "host-key"),
        "node.env": f"NODE_NAME='{name}'\n",
        "host_key": newest.private,
        "host_key.pub": newest.public,
    }


def show_host_key(
    context: Context,
    name: str,
    keys: Sequence[KeyPair],
    to: SshTarget,
    *,
    via: SshTarget | None,
    machine_id: pulumi.Input[str],
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Have a server show its newest host key, before anything asks for it.

    Until the rotation is done, it shows the one before it too: commands of the last update, which
    run when something is replaced, ask for that one. There is nothing to do without a second
    generation.
    """
    if len(keys) == 1:
        return []
    *earlier, newest = keys
    in_use = pulumi.Output.all(context.host_keys_in_use, *(key.public for key in earlier)).apply(
        lambda values: json.dumps([values[generation] for generation in values[0]])
    )
    folder: pulumi.Output[str] = pulumi.Output.all(
        in_use=context.host_keys_in_use,
        older=earlier[-1].private,
        older_public=earlier[-1].public,
        files=host_key_files(name, newest),
    ).apply(
        lambda values: pack(
            {
                **values["files"],
                **(
                    {
                        "older_host_key": values["older"],
                        "older_host_key.pub": values["older_public"],
                    }
                    if values["in_use"]
                    else {}
                ),
            }
        )
    )
    return [
        login_command(
            context,
            f"{name}-show-host-key",
            "host_key show",
            name,
            to,
            via=via,
            variables=_variables(name, folder, in_use),
            triggers=[machine_id, newest.public],
            after=after,
            opts=opts,
        )
    ]


def retire_host_keys(
    context: Context,
    name: str,
    keys: Sequence[KeyPair],
    to: SshTarget,
    *,
    via: SshTarget | None,
    machine_id: pulumi.Input[str],
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Have a server show its newest host key only, when nothing asks for an older one."""
    if len(keys) < 2:
        return []
    *earlier, newest = keys
    older = pulumi.Output.all(*(key.public for key in earlier)).apply(json.dumps)
    folder: pulumi.Output[str] = pulumi.Output.all(**host_key_files(name, newest)).apply(pack)
    return [
        login_command(
            context,
            f"{name}-only-host-key",
            "host_key only",
            name,
            to,
            via=via,
            variables=_variables(name, folder, older),
            triggers=[machine_id, newest.public],
            after=after,
            opts=opts,
        )
    ]


def _variables(
    name: str, folder: pulumi.Output[str], older: pulumi.Output[str]
) -> Mapping[str, pulumi.Input[str]]:
    run = "host-key/host-key.sh rotate"
    return {
        "OLDER": older,
        "COMMAND": loader(run, lock=f"{name}-host-key", seconds=HOST_KEY_SECONDS),
        "FOLDER": folder,
    }
