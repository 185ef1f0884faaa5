"""SSH host keys of servers: made, shown, and retired."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_tls as tls
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from components.context import Context
from components.key_pair import KeyPair, numbered
from components.key_rotation import KeyRotation
from components.machine_login import MachineLogin, login_command
from components.packing import pack, scripts
from components.ssh import loader

# Seconds for the host key, which takes one: the machine has booted when it begins.
HOST_KEY_SECONDS = 300
# In turn, one for each generation.
_CURVES = ("P256", "P384")


def permanent_host_keys(
    name: str, generations: int, opts: pulumi.ResourceOptions
) -> Sequence[KeyPair]:
    """The SSH host keys of a machine, OpenSSH's formats: the first generation first.

    The one-time key is of another type, and each generation's curve is another one than that of the
    generation before. So sshd offers what belongs to two of them at a time, and each connection
    asks for the one that it means.
    """
    return [
        KeyPair(key.public_key_openssh, key.private_key_openssh)
        for generation in range(1, generations + 1)
        for key in [
            tls.PrivateKey(
                f"{name}-{numbered('host-key', generation)}",
                algorithm="ECDSA",
                ecdsa_curve=_CURVES[(generation - 1) % len(_CURVES)],
                opts=opts,
            )
        ]
    ]


@dataclass(frozen=True)
class OneTimeHostKey:
    """The SSH host key in user_data, good for the first connection only. OpenSSH's formats."""

    public: str
    private: str

    @staticmethod
    def generate() -> OneTimeHostKey:
        """A new one, at each run: no resource would be replaced whenever its server is."""
        key = ed25519.Ed25519PrivateKey.generate()
        openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        return OneTimeHostKey(key.public_key().public_bytes(*openssh).decode(), private.decode())


def host_key_files(login: MachineLogin) -> dict[str, pulumi.Input[str]]:
    """The folder of host-key.sh."""
    newest = login.host_keys[-1]
    return {
        **scripts("lib", "host-key"),
        "node.env": f"NODE_NAME='{login.name}'\n",
        "host_key": newest.private,
        "host_key.pub": newest.public,
    }


def show_host_key(
    context: Context,
    login: MachineLogin,
    *,
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Have a server show its newest host key, before anything asks for it.

    Until the rotation is done, it shows the one before it too: commands of the last update, which
    run when something is replaced, ask for that one. There is nothing to do without a second
    generation.
    """
    if len(login.host_keys) == 1:
        return []
    *earlier, newest = login.host_keys
    in_use = _public(context, login, lambda rotation: rotation.in_use)
    folder: pulumi.Output[str] = pulumi.Output.all(
        rotation=context.host_key_rotation,
        older=_older_files(earlier[-1]),
        files=host_key_files(login),
    ).apply(
        lambda values: pack(
            {**values["files"], **(values["older"] if values["rotation"].in_use else {})}
        )
    )
    return [
        login_command(
            context,
            login,
            "show-host-key",
            "host_key show",
            variables=_variables(login, folder, in_use),
            trigger=newest.public,
            after=after,
            opts=opts,
        )
    ]


def retire_host_keys(
    context: Context, login: MachineLogin, *, after: Sequence[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Have a server show its newest host key only, when nothing asks for an older one."""
    if len(login.host_keys) < 2:
        return []
    newest = login.host_keys[-1]
    older = _public(context, login, lambda rotation: rotation.retired)
    folder: pulumi.Output[str] = pulumi.Output.all(**host_key_files(login)).apply(pack)
    return [
        login_command(
            context,
            login,
            "only-host-key",
            "host_key only",
            variables=_variables(login, folder, older),
            trigger=pulumi.Output.all(context.host_key_rotation, newest.public).apply(
                lambda both: both[0].trigger(both[1])
            ),
            after=after,
        )
    ]


def _public(
    context: Context, login: MachineLogin, generations: Callable[[KeyRotation], Sequence[int]]
) -> pulumi.Output[str]:
    """A JSON list of the public keys of these generations."""
    return pulumi.Output.all(
        context.host_key_rotation, *(key.public for key in login.host_keys)
    ).apply(lambda values: json.dumps([values[each] for each in generations(values[0])]))


def _older_files(older: KeyPair) -> Mapping[str, pulumi.Input[str]]:
    return {"older_host_key": older.private, "older_host_key.pub": older.public}


def _variables(
    login: MachineLogin, folder: pulumi.Output[str], older: pulumi.Output[str]
) -> Mapping[str, pulumi.Input[str]]:
    run = "host-key/host-key.sh rotate"
    return {
        "OLDER": older,
        "COMMAND": loader(run, lock=f"{login.name}-host-key", seconds=HOST_KEY_SECONDS),
        "FOLDER": folder,
    }
