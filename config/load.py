"""Reads the configuration of the stack, once: `Cluster`, and the secrets next to it.

`load` is pure: a mapping in, a frozen `Cluster` out, or one `ConfigError` that names every fault.
Secret values stay Pulumi outputs, in `Secrets`, outside of the model.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi
from pulumi.runtime.config import CONFIG, is_config_secret

from config import own_ssh_keys
from config.errors import MISSING, ConfigError, Fault
from config.models.cluster import Cluster
from config.parse import parse
from config.rules import cross_field_faults, warnings

PROJECT = "openstack-kubernetes"

# Keys whose values never enter the model, and their descriptions.
SECRET_KEYS = {
    own_ssh_keys.NEWEST: (
        "Private SSH key (OpenSSH or PEM, without a passphrase) of the cluster, instead of a new "
        "one. Machines in `workerPools[].machines` must accept it."
    ),
    own_ssh_keys.PREVIOUS: (
        "The previous `sshPrivateKey`, for the update that replaces it: machines accept both keys, "
        "and at its end only the new one. Remove it afterwards."
    ),
    "oidcClientSecret": (
        "Secret of the client `oidc.clientId`, for Headlamp; not needed for a public client."
    ),
    "backupSecretKey": "Secret key that belongs to `backup.bucket.accessKey`.",
}


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Secret values of the configuration."""

    settings_with_secrets: frozenset[str]
    """Top-level keys of the model in which something was set with `--secret`."""
    ssh_private_keys: Sequence[pulumi.Output[str]]
    """The user's own keys, the newest last; without any, the program makes one."""
    oidc_client_secret: pulumi.Output[str] | None
    """Secret with which Headlamp logs in at the OIDC issuer."""
    backup_secret_key: pulumi.Output[str] | None
    """Key with which the control planes sign their requests to the bucket."""


def load(raw: Mapping[str, object], stack: str, secret: Collection[str] = ()) -> Cluster:
    """Make a cluster's configuration from the user's values.

    Args:
        raw: values by key (camelCase), nested ones as dicts and lists. An empty string, list or
            object counts as not set, because Pulumi.yaml has no other way to say "optional".
        stack: the stack's name, the default of `clusterName`.
        secret: keys whose values must not appear in messages.

    Raises:
        ConfigError: with every fault that was found.
    """
    is_set = {key: value for key, value in raw.items() if value not in ("", [], {}, None)}
    plain = {key: value for key, value in is_set.items() if key not in SECRET_KEYS}
    parsed = parse(Cluster, {"clusterName": stack, **plain})
    faults = [
        *parsed.faults,
        *_secrets_in_plain_text(is_set, secret),
        *_missing_secrets(parsed.model, is_set),
        *own_ssh_keys.faults(is_set),
        *cross_field_faults(parsed.model, parsed.unusable),
    ]
    if faults:
        raise ConfigError([_without_secrets(fault, secret) for fault in faults])
    return parsed.model


def _secrets_in_plain_text(is_set: Collection[str], secret: Collection[str]) -> list[Fault]:
    return [
        Fault(key, MISSING, f"set it again as a secret: `pulumi config set --secret {key}`")
        for key in SECRET_KEYS
        if key in is_set and key not in secret
    ]


def _missing_secrets(cluster: Cluster, is_set: Collection[str]) -> list[Fault]:
    """The secrets that another key makes necessary."""
    if cluster.backup.bucket is None or "backupSecretKey" in is_set:
        return []
    problem = "backup.bucket needs it: `pulumi config set --secret backupSecretKey`"
    return [Fault("backupSecretKey", MISSING, problem)]


def _without_secrets(fault: Fault, secret: Collection[str]) -> Fault:
    if fault.value is MISSING or not any(fault.is_in(key) for key in secret):
        return fault
    return replace(fault, value="[secret]")


def cluster_of_stack() -> Cluster:
    """Read the configuration of the stack that is being run; warn of what is odd in it.

    Raises:
        ConfigError: with every fault that was found.
    """
    if faults := _keys_of_another_project():
        raise ConfigError(faults)
    raw = {key: _decoded(value) for key, value in _stored().items()}
    cluster = load(raw, pulumi.get_stack(), _secret_keys())
    for warning in warnings(cluster):
        pulumi.log.warn(warning)
    return cluster


def secrets_of_stack() -> Secrets:
    """Read the secret values of the stack that is being run."""
    keys = map(pulumi.Config().get_secret, (own_ssh_keys.PREVIOUS, own_ssh_keys.NEWEST))
    return Secrets(
        settings_with_secrets=_secret_keys().difference(SECRET_KEYS),
        ssh_private_keys=[key for key in keys if key is not None],
        oidc_client_secret=pulumi.Config().get_secret("oidcClientSecret"),
        backup_secret_key=pulumi.Config().get_secret("backupSecretKey"),
    )


def _stored() -> dict[str, str]:
    """The values in the stack's configuration for this project, by key."""
    prefix = f"{pulumi.get_project()}:"
    return {
        key.removeprefix(prefix): value
        for key, value in CONFIG.get().items()
        if key.startswith(prefix)
    }


def _keys_of_another_project() -> list[Fault]:
    """Keys as the examples have them, where `pulumi new` has given the project another name."""
    project = pulumi.get_project()
    return [
        Fault(key, MISSING, f"the project is named {project}: write {project}:{name}")
        for key in CONFIG.get()
        for namespace, _, name in [key.partition(":")]
        if namespace == PROJECT != project
    ]


def _secret_keys() -> frozenset[str]:
    project = pulumi.get_project()
    return frozenset(key for key in _stored() if is_config_secret(f"{project}:{key}"))


def _decoded(value: str) -> object:
    # The engine passes every value as a string, lists and objects as JSON.
    try:
        decoded: object = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, dict | list) else value
