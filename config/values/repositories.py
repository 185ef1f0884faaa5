"""Locations of images, charts and backups."""

from typing import Annotated

from pydantic import AfterValidator

from config.values.text import Line, matches

RegistryHost = Annotated[
    str,
    matches(
        r"_default|[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?(:\d{1,5})?",
        "must be a registry's host such as docker.io, without scheme or path, or _default",
    ),
]
ImageRegistry = Annotated[
    str,
    matches(
        r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9][-._a-z0-9]*)*",
        "must be HOST[:PORT][/PATH] in lower case, without https://",
    ),
]
ChartRepository = Annotated[
    Line,
    matches(r"(https?|oci)://[^\s/]\S*", "must start with https://, http:// or oci://"),
    AfterValidator(lambda url: url.rstrip("/")),
]
# A script puts these into a URL as they are.
BucketName = Annotated[
    str,
    matches(
        r"[A-Za-z0-9][A-Za-z0-9._-]*",
        "must consist of letters, digits, '.', '_' and '-', and start with a letter or digit",
    ),
]
ObjectName = Annotated[
    str,
    matches(
        r"[A-Za-z0-9][A-Za-z0-9._/-]*",
        "must consist of letters, digits, '.', '_', '-' and '/', and start with a letter or digit",
    ),
]
