"""Reads the configuration of the stack, once: `Cluster`, and the secrets beside it.

`load` is pure: a mapping in, a frozen `Cluster` out, or one `ConfigError` that names every fault.
Values that are secret stay Pulumi outputs, in `Secrets`, outside of the model.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pulumi
from pulumi.runtime.config import CONFIG, is_config_secret

from config.errors import MISSING, Fault, validate
from config.models.cluster import Cluster
from config.rules import cross_field_faults

PROJECT = "openstack-kubernetes"

# Keys whose values never enter the model, and what they are.
SECRET_KEYS = {
    "sshPrivateKey": (
        "SSH key (private, OpenSSH or PEM) of the whole cluster instead of one that is made; "
        "what machines of `workerPools[].machines` already know."
    ),
    "oidcClientSecret": (
        "Secret of the client `oidc.clientId`, for Headlamp; without it a public client logs in."
    ),
    "backupSecretKey": "Secret key that belongs to `backup.bucket.accessKey`.",
}


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Secret values of the configuration."""

    keys: frozenset[str]
    """Top-level keys of the model in which something was set with `--secret`."""
    ssh_private_key: pulumi.Output[str] | None
    """Key for machines that exist already; without it the cluster's own key is used."""
    oidc_client_secret: pulumi.Output[str] | None
    """What Headlamp shows the OIDC issuer."""
    backup_secret_key: pulumi.Output[str] | None
    """What the control planes sign their requests to the bucket with."""


def load(raw: Mapping[str, object], stack: str, secret: Collection[str] = ()) -> Cluster:
    """Make a cluster's configuration from what the user wrote.

    Args:
        raw: values by key (camelCase), nested ones as dicts and lists. A text, list or object
            that is empty counts as not set: Pulumi.yaml has no other way to say "optional".
        stack: the stack's name, the default of `clusterName`.
        secret: keys whose values no message may show.

    Raises:
        ConfigError: with every fault that was found.
    """
    is_set = {key: value for key, value in raw.items() if value not in ("", [], {}, None)}
    in_the_open = [
        Fault(key, MISSING, f"set it anew, as a secret: `pulumi config set --secret {key}`")
        for key in SECRET_KEYS
        if key in is_set and key not in secret
    ]
    plain = {key: value for key, value in is_set.items() if key not in SECRET_KEYS}
    return validate(
        Cluster,
        {"clusterName": stack, **plain},
        lambda cluster, bad: [
            *in_the_open,
            *_missing_secrets(cluster, is_set),
            *cross_field_faults(cluster, bad),
        ],
        secret,
    )


def _missing_secrets(cluster: Cluster, is_set: Collection[str]) -> list[Fault]:
    """Secrets that another key makes necessary."""
    if cluster.backup.bucket is None or "backupSecretKey" in is_set:
        return []
    problem = "backup.bucket needs it: `pulumi config set --secret backupSecretKey`"
    return [Fault("backupSecretKey", MISSING, problem)]


def from_pulumi() -> Cluster:
    """Read the configuration of the stack that is being run.

    Raises:
        ConfigError: with every fault that was found.
    """
    raw = {key: _decoded(value) for key, value in _stored().items()}
    return load(raw, pulumi.get_stack(), _secret_keys())


def secrets_from_pulumi() -> Secrets:
    """Read the secret values of the stack that is being run."""
    return Secrets(
        keys=_secret_keys().difference(SECRET_KEYS),
        ssh_private_key=pulumi.Config().get_secret("sshPrivateKey"),
        oidc_client_secret=pulumi.Config().get_secret("oidcClientSecret"),
        backup_secret_key=pulumi.Config().get_secret("backupSecretKey"),
    )


def _stored() -> dict[str, str]:
    """What the stack's configuration holds for this project, by key."""
    prefix = f"{pulumi.get_project()}:"
    return {
        key.removeprefix(prefix): value
        for key, value in CONFIG.get().items()
        if key.startswith(prefix)
    }


def _secret_keys() -> frozenset[str]:
    project = pulumi.get_project()
    return frozenset(key for key in _stored() if is_config_secret(f"{project}:{key}"))


def _decoded(value: str) -> object:
    # The engine hands every value over as text, lists and objects as JSON.
    try:
        decoded: object = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, dict | list) else value
