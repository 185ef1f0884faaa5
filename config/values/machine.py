"""Values that end up in files or commands of a machine, checked for what they mean there."""

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator, JsonValue


def _matches(pattern: str, message: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(message)
        return value

    return check


def _odd(count: int) -> int:
    if count not in (1, 3, 5):
        raise ValueError(
            "must be 1, 3 or 5: an even number of etcd members survives no more losses "
            "than one fewer"
        )
    return count


def _toml(text: str) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"must be TOML: {error}") from None
    return text


def _without_type(fields: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    if named := {"apiVersion", "kind"} & fields.keys():
        raise ValueError(f"must not name {' and '.join(sorted(named))}; the program sets them")
    return fields


OddCount = Annotated[int, AfterValidator(_odd)]
UserName = Annotated[
    str, AfterValidator(_matches(r"[a-z_][-a-z0-9_]{0,31}", "must be a Linux user name"))
]
HostKey = Annotated[
    str,
    AfterValidator(
        _matches(
            r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+=*( .*)?",
            "must be a type and a base64 key, such as `ssh-ed25519 AAAA...`; "
            "`ssh-keyscan ADDRESS` prints them after the address",
        )
    ),
]
CheckName = Annotated[
    str,
    AfterValidator(_matches(r"[-\w./]+", "must be the name of one check, such as NumCPU")),
]
HttpsUrl = Annotated[
    str, AfterValidator(_matches(r"https://[^/\s]+\S*", "must be a URL that starts with https://"))
]
Pem = Annotated[
    str,
    AfterValidator(
        _matches(
            r"\s*-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----\s*",
            "must be a certificate in PEM: -----BEGIN CERTIFICATE----- ...",
        )
    ),
]
DropInName = Annotated[
    str,
    AfterValidator(
        _matches(r"[A-Za-z0-9][-._A-Za-z0-9]*\.toml", "must be a file name that ends in .toml")
    ),
]
Toml = Annotated[str, AfterValidator(_toml)]
RegistryHost = Annotated[
    str,
    AfterValidator(
        _matches(
            r"_default|[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?(:\d{1,5})?",
            "must be a registry's host such as docker.io, without scheme or path, or _default",
        )
    ),
]
ComponentConfig = Annotated[Mapping[str, JsonValue], AfterValidator(_without_type)]
