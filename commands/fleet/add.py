"""The `Stack` of a cluster in the admin cluster, for Pulumi's operator, with its Secret."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from cloud.login import LOGIN_KEYS
from commands.fleet import objects
from commands.fleet.clusters import trouble
from commands.fleet.credentials import FOLDER, Credentials, collect
from commands.fleet.stack_objects import (
    API,
    NAMESPACE,
    PROJECT,
    STACKS,
    Identity,
    StackObjectError,
    backend,
    identity,
)
from commands.fleet.stacks import administrator, configuration_file
from commands.pulumi_cli import project, pulumi

ACCOUNT = "workspace"

_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
# Changed with the Secret: a pod reads it only when it starts.
_VERSION = "openstack-kubernetes-secret"
# Where the program is in its image.
_PROGRAM = "/program"
# The operator's own limit.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")
_PROVIDER = "openstack:"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The configuration of a stack, as the operator takes it."""

    values: Mapping[str, Any]
    secrets: Mapping[str, str]
    provider: str
    """The secrets provider of the stack."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster that the operator is to run."""

    identity: Identity
    image: str
    resync: int
    """Seconds between two runs that repair; 0 for none."""
    configuration: Configuration
    credentials: Credentials

    @property
    def name(self) -> str:
        """The name of its objects."""
        return plain(self.identity.stack)

    def secret(self) -> dict[str, Any]:
        """All that is secret, in one object."""
        data = {
            **self.credentials.variables,
            **self.credentials.files,
            **{_secret_key(key): text for key, text in self.configuration.secrets.items()},
        }
        encoded = {key: b64encode(text.encode()).decode() for key, text in data.items()}
        return {**_document("v1", "Secret", self.name), "data": encoded}

    def stack_object(self, version: str | None = None) -> dict[str, Any]:
        """The Stack.

        Args:
            version: of the Secret in the admin cluster.
        """
        spec: dict[str, Any] = {
            "stack": self.identity.stack,
            "backend": self.identity.backend,
            "secretsProvider": self.configuration.provider,
            "useLocalStackOnly": True,
            "config": {
                **self.configuration.values,
                f"{_PROVIDER}cloud": self.credentials.cloud,
            },
            "secretsRef": {
                key: self._reference(_secret_key(key)) for key in self.configuration.secrets
            },
            "envRefs": {
                **{name: self._reference(name) for name in self.credentials.variables},
                **{
                    name: {"type": "Literal", "literal": {"value": path}}
                    for name, path in self.credentials.paths.items()
                },
            },
            "refresh": True,
            "continueResyncOnCommitMatch": self.resync > 0,
            "resyncFrequencySeconds": self.resync,
            "destroyOnFinalize": True,
            # Or a destroy does not run in the image, which then takes this option out.
            "runProgram": True,
            "serviceAccountName": ACCOUNT,
            "workspaceTemplate": {"spec": self._workspace(version)},
        }
        # The operator takes out what is empty; added again, the object would have changed.
        kept = {key: value for key, value in spec.items() if value}
        document = _document("pulumi.com/v1", "Stack", self.name)
        metadata = {**document["metadata"], "annotations": {PROJECT: self.identity.project}}
        return {**document, "metadata": metadata, "spec": kept}

    def _workspace(self, version: str | None) -> dict[str, Any]:
        files = [{"key": name, "path": name} for name in sorted(self.credentials.files)]
        template: dict[str, Any] = {
            "spec": {
                "containers": [
                    {
                        "name": "pulumi",
                        "volumeMounts": [
                            {"name": "openstack", "mountPath": FOLDER, "readOnly": True}
                        ],
                    }
                ],
                "volumes": [
                    {
                        "name": "openstack",
                        "secret": {"secretName": self.name, "items": files},
                    }
                ],
            }
        }
        if version is not None:
            template["metadata"] = {"annotations": {_VERSION: version}}
        return {
            "image": self.image,
            "local": {"dir": _PROGRAM},
            "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
            "podTemplate": template,
        }

    def _reference(self, key: str) -> dict[str, Any]:
        return {"type": "Secret", "secret": {"name": self.name, "key": key}}


def plain(stack: str) -> str:
    """The name of the objects about a stack.

    Raises:
        StackObjectError: if no Stack can have it.
    """
    name = stack.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise StackObjectError(
            f"{name} cannot be the name of a Stack: it must have at most 42 lower-case letters, "
            "digits and `-`, with a letter first"
        )
    return name


def read(stack: str, image: str, resync: int) -> Cluster:
    """Read a stack's configuration, and what it logs in with.

    Raises:
        StackObjectError: if the operator cannot run it.
        ConfigError, CredentialError, PulumiError: if something is missing.
    """
    plain(stack)
    place = backend()
    if place.startswith("file:"):
        raise StackObjectError(
            f"the state is in a folder, {place}, which the operator's pods do not have: "
            "move it to a bucket ('An object store for all clusters' in docs/fleet.md)"
        )
    listed = json.loads(pulumi("config", "--json", "--show-secrets", "--stack", stack))
    configuration = _configuration(stack, listed, place)

    def provider(key: str) -> str | None:
        value: str | None = listed.get(f"{_PROVIDER}{key}", {}).get("value")
        return value

    return Cluster(
        identity=Identity(stack, project(), place),
        image=image,
        resync=resync,
        configuration=configuration,
        credentials=collect(
            provider, backend=place, passphrase=configuration.provider == "passphrase"
        ),
    )


def apply(cluster: Cluster, admin: str, kubeconfig: Path | None) -> None:
    """Make or change the Stack and its Secret in the admin cluster.

    Args:
        cluster: what the operator is to run.
        admin: the stack of the admin cluster.
        kubeconfig: the way into it; without it, that of the stack.

    Raises:
        StackObjectError: if the admin cluster does not answer, has no operator, or has another
            Stack of this name.
        PulumiError, StackError, KubeconfigError: if nothing tells a way into it.
    """
    try:
        with administrator(admin, kubeconfig).client() as api:
            for path in (API, f"/api/v1/namespaces/{NAMESPACE}"):
                if not objects.exists(api, path):
                    raise StackObjectError(
                        f"{admin} has no operator: set addons.operator.enabled, run `pulumi up`"
                    )
            present = _present(api, cluster)
            objects.apply(api, _SECRETS, cluster.secret())
            kept = api.get(f"{_SECRETS}/{cluster.name}").raise_for_status().json()
            stack = cluster.stack_object(kept["metadata"]["resourceVersion"])
            # Someone else has set them, and would keep them.
            if others := present.keys() - stack["spec"]["config"].keys():
                removed = {"spec": {"config": dict.fromkeys(sorted(others))}}
                objects.merge(api, f"{STACKS}/{cluster.name}", removed)
            objects.apply(api, STACKS, stack)
    except httpx.HTTPError as error:
        raise StackObjectError(f"{admin}: {trouble(error)}") from error
    except OSError as error:
        raise StackObjectError(f"{kubeconfig}: cannot be read: {error.strerror}") from None


def _present(api: httpx.Client, cluster: Cluster) -> Mapping[str, Any]:
    """The configuration in the present Stack, if there is one."""
    answer = api.get(f"{STACKS}/{cluster.name}")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return {}
    document = answer.raise_for_status().json()
    there = identity(document, cluster.identity.project)
    if there != cluster.identity:
        raise StackObjectError(
            f"the Stack {cluster.name} there is {there}, which would be left alone: take it back "
            "first ('Clusters as objects of the admin cluster' in docs/fleet.md)"
        )
    found: Mapping[str, Any] = document["spec"].get("config", {})
    return found


def _configuration(stack: str, listed: Mapping[str, Any], place: str) -> Configuration:
    """The keys of the stack's own file: those that are not there have the program's defaults."""
    file = configuration_file(stack)
    try:
        prefix = f"{project()}:"
        document: dict[str, Any] = yaml.safe_load(file.read_text()) or {}
    except OSError as error:
        raise StackObjectError(
            f"{error.filename} is missing: run this where you run `pulumi up`"
        ) from None
    values: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    for key, value in (document.get("config") or {}).items():
        # Pulumi and its operator add the project to a key without one.
        short = key.removeprefix(prefix)
        if key.removeprefix(_PROVIDER) in LOGIN_KEYS and key.startswith(_PROVIDER):
            continue
        told = listed[key if ":" in key else f"{prefix}{key}"]
        if isinstance(value, dict) and value.keys() == {"secure"}:
            secrets[short] = told["value"]
        elif _has_secret(value):
            raise StackObjectError(
                f"{key} of {file} has a secret inside: the operator passes whole texts as secrets "
                "only. Keep this cluster with `pulumi up`, or the secret in another place"
            )
        else:
            values[short] = _told(value, told)
    return Configuration(
        values=values, secrets=secrets, provider=_secrets_provider(document, place)
    )


def _told(written: object, listed: Mapping[str, Any]) -> object:
    """The value as Pulumi reads it: it takes `22:00`, `on` and dates for texts, YAML 1.1 does not.

    A number or a boolean that both read alike remains one.
    """
    text: object = listed.get("objectValue", listed["value"])
    return written if json.dumps(written, default=str) == text else text


def _secrets_provider(document: Mapping[str, Any], place: str) -> str:
    """The provider that the stack's file names, else the backend's own."""
    if named := document.get("secretsprovider"):
        return str(named)
    # The salt of a passphrase is in the file. Pulumi Cloud's own provider leaves nothing there, and
    # that of a bucket is a passphrase.
    salted = "encryptionsalt" in document
    return "default" if place.startswith("http") and not salted else "passphrase"


def _has_secret(value: object) -> bool:
    if isinstance(value, dict):
        return value.keys() == {"secure"} or any(map(_has_secret, value.values()))
    return isinstance(value, list) and any(map(_has_secret, value))


def _secret_key(key: str) -> str:
    """A key of a Secret, which has no colon."""
    return f"config.{key.replace(':', '.')}"


def _document(version: str, kind: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
