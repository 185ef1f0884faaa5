"""The logins of a workspace of Pulumi's operator, from this environment and its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from cloud.login import FILES, login, resolve
from commands.errors import CommandError

PASSPHRASE = "PULUMI_CONFIG_PASSPHRASE"  # noqa: S105 - its name
# Where openstacksdk and the provider look for clouds.yaml.
FOLDER = "/etc/openstack"
# The backends' own variables: Pulumi Cloud, S3, Azure, Google.
_BACKEND = (
    "PULUMI_ACCESS_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AZURE_STORAGE_ACCOUNT",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "GOOGLE_CREDENTIALS",
)
# Those without which a pod does not get in, by the scheme of the backend's URL: it has no other
# files of whoever runs this, such as those of `pulumi login` or of an AWS profile.
_REQUIRED = {
    "http": ("PULUMI_ACCESS_TOKEN",),
    "https": ("PULUMI_ACCESS_TOKEN",),
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "azblob": ("AZURE_STORAGE_ACCOUNT",),
    "gs": ("GOOGLE_CREDENTIALS",),
}
# A file, with the CA of the backend.
_CA = "AWS_CA_BUNDLE"
# Settings of an entry of clouds.yaml, without those that are files.
_SETTINGS = ("auth_type", "auth", "region_name", "interface", "verify")


class CredentialError(CommandError):
    """Something to log in with is missing; the text says what to set."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Variables and files of a workspace, and the entry of its clouds.yaml."""

    variables: Mapping[str, str]
    paths: Mapping[str, str]
    """Variables that name one of the files."""
    files: Mapping[str, str]
    cloud: str


def collect(
    provider: Callable[[str], str | None], *, backend: str, passphrase: bool
) -> Credentials:
    """Collect what the stack needs.

    Args:
        provider: looks up a key of the OpenStack provider in the stack's configuration.
        backend: the URL of the backend.
        passphrase: whether the stack is encrypted with one.

    Raises:
        CredentialError: if the passphrase or a key of the backend is not set, or a file cannot be
            read.
        ConfigError: if clouds.yaml has no such entry, or nothing is set at all.
    """
    variables = {name: os.environ[name] for name in _BACKEND if os.environ.get(name)}
    required = _REQUIRED.get(urlsplit(backend).scheme, ())
    if missing := [name for name in required if name not in variables]:
        raise CredentialError(
            f"the operator's pods log in to {backend} with what is in the environment here: set "
            f"{', '.join(missing)}"
        )
    if passphrase:
        variables[PASSPHRASE] = _passphrase()
    files, cloud = _clouds_yaml(provider)
    paths = {}
    if bundle := os.environ.get(_CA):
        files["backend-ca.pem"] = _text(_CA, bundle)
        paths[_CA] = f"{FOLDER}/backend-ca.pem"
    return Credentials(variables=variables, paths=paths, files=files, cloud=cloud)


def _passphrase() -> str:
    if text := os.environ.get(PASSPHRASE):
        return text
    if path := os.environ.get(f"{PASSPHRASE}_FILE"):
        # As Pulumi reads it.
        return _text(f"{PASSPHRASE}_FILE", path).strip()
    raise CredentialError(f"the stack is encrypted with a passphrase: set {PASSPHRASE}")


def _clouds_yaml(provider: Callable[[str], str | None]) -> tuple[dict[str, str], str]:
    """Its text with one entry, and the files that this names; the entry's name."""
    found = login(provider, os.environ)
    region = resolve(found)
    entry: dict[str, Any] = {
        key: region.config[key] for key in _SETTINGS if region.config.get(key) is not None
    }
    files = {}
    for key in FILES:
        if path := region.config.get(key):
            files[f"{key}.pem"] = _text(key, path)
            entry[key] = f"{FOLDER}/{key}.pem"
    name = found.value if found.from_file and found.value else "openstack"
    files["clouds.yaml"] = yaml.safe_dump({"clouds": {name: entry}})
    return files, name


def _text(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialError(f"{name} = {path}: cannot be read: {error}") from None
