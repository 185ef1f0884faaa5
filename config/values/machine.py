"""Users, SSH keys and files of a machine."""

import tomllib
from typing import Annotated

from pydantic import AfterValidator

from config.values.text import Line, matches


def _toml(text: str) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"must be TOML: {error}") from None
    return text


UserName = Annotated[str, matches(r"[a-z_][-a-z0-9_]{0,31}", "must be a Linux user name")]
HostKey = Annotated[
    Line,
    matches(
        r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+=*( .*)?",
        "must be a type and a base64 key, such as `ssh-ed25519 AAAA...`; "
        "`ssh-keyscan ADDRESS` prints them after the address",
    ),
]
DropInName = Annotated[
    str, matches(r"[A-Za-z0-9][-._A-Za-z0-9]*\.toml", "must be a file name that ends in .toml")
]
Toml = Annotated[str, AfterValidator(_toml)]
