"""The pod of the object store, and the files that it reads."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment, DeploymentSpecArgs, DeploymentStrategyArgs
from pulumi_kubernetes.core.v1 import (
    ConfigMapVolumeSourceArgs,
    ContainerArgs,
    ContainerPortArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    HTTPGetActionArgs,
    PersistentVolumeClaimVolumeSourceArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ProbeArgs,
    ResourceRequirementsArgs,
    SecretKeySelectorArgs,
    SecretVolumeSourceArgs,
    VolumeArgs,
    VolumeMountArgs,
)
from pulumi_kubernetes.meta.v1 import LabelSelectorArgs, ObjectMetaArgs

import versions
from addons.installer import Installer
from addons.object_store.keys import ROOT, Certificate
from addons.unprivileged import container_security, pod_security
from config import ports

NAME = "object-store"
LABELS = {"app.kubernetes.io/name": NAME}
IMAGE = f"ghcr.io/versity/versitygw:{versions.VERSITYGW}"
# The one that clients assume.
REGION = "us-east-1"

_PROGRAM = "versitygw"
_CREATE_BUCKETS, _PRUNE_HISTORY = (
    Path(__file__).parent.parent / "programs" / f"{name}.sh"
    for name in ("create_buckets", "prune_history")
)
_HEALTH = "/healthz"
# A folder of the volume, which has others of its file system.
_BUCKETS = "/data/buckets"
_MOUNTS = {"data": "/data", "users": "/users", "certificate": "/certificate", "scripts": "/scripts"}
_ROOT_SECRET, _USERS_SECRET, _CERTIFICATE_SECRET = (
    f"{NAME}-{part}" for part in ("root", "users", "certificate")
)


@dataclass(frozen=True, kw_only=True)
class Files:
    """The objects that hold what the pod reads, and a sum over all of it."""

    objects: Sequence[pulumi.Resource]
    checksum: pulumi.Output[str]


def users(secret_keys: Mapping[str, str]) -> str:
    """Return the file that tells the store its users: each owns a bucket and can make no other."""
    accounts = {
        user: {"access": user, "secret": secret, "role": "user"}
        for user, secret in secret_keys.items()
    }
    return json.dumps({"accessAccounts": accounts}, sort_keys=True)


def files(
    installer: Installer,
    namespace: str,
    *,
    certificate: Certificate,
    secret_keys: Mapping[str, pulumi.Output[str]],
    after: Sequence[pulumi.Resource],
) -> Files:
    """Create the Secrets with the keys, and the ConfigMap with the scripts."""
    known = pulumi.Output.all(**secret_keys)
    root = known.apply(lambda keys: {"access": ROOT, "secret": keys[ROOT]})
    accounts = known.apply(
        lambda keys: {"users.json": users({u: key for u, key in keys.items() if u != ROOT})}
    )
    pair = pulumi.Output.all(**{"tls.crt": certificate.public, "tls.key": certificate.private})
    scripts = {script.name: script.read_text() for script in (_CREATE_BUCKETS, _PRUNE_HISTORY)}
    content = pulumi.Output.all(root, accounts, pair, scripts)
    return Files(
        objects=[
            installer.secret(_ROOT_SECRET, namespace, root, after),
            installer.secret(_USERS_SECRET, namespace, accounts, after),
            installer.secret(_CERTIFICATE_SECRET, namespace, pair, after, kind="kubernetes.io/tls"),
            installer.config_map(NAME, namespace, scripts, after=after),
        ],
        # The keys are long and random: their sum tells nothing.
        checksum=pulumi.Output.unsecret(
            content.apply(lambda all_: hashlib.sha256(json.dumps(all_).encode()).hexdigest())
        ),
    )


def deploy(
    installer: Installer,
    namespace: str,
    *,
    buckets: Sequence[str],
    state_bucket: str,
    checksum: pulumi.Input[str],
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Run one pod: a volume is on one node at a time."""
    return Deployment(
        f"{installer.name}-{NAME}",
        metadata=ObjectMetaArgs(name=NAME, namespace=namespace),
        spec=DeploymentSpecArgs(
            replicas=1,
            strategy=DeploymentStrategyArgs(type="Recreate"),
            selector=LabelSelectorArgs(match_labels=LABELS),
            template=PodTemplateSpecArgs(
                metadata=ObjectMetaArgs(labels=LABELS, annotations={"checksum/files": checksum}),
                spec=_pod(buckets, state_bucket),
            ),
        ),
        opts=installer.options(after),
    )


def _pod(buckets: Sequence[str], state_bucket: str) -> PodSpecArgs:
    return PodSpecArgs(
        automount_service_account_token=False,
        enable_service_links=False,
        security_context=pod_security(),
        init_containers=[
            ContainerArgs(
                name="create-buckets",
                image=IMAGE,
                command=_script(_CREATE_BUCKETS, _BUCKETS, *buckets),
                env=_environment({"VGW_PORT": f"127.0.0.1:{ports.OBJECT_STORE}"}),
                security_context=container_security(),
                volume_mounts=_mounts("data", "users", "scripts"),
            )
        ],
        containers=[
            ContainerArgs(
                name=NAME,
                image=IMAGE,
                command=[_PROGRAM, "posix", _BUCKETS],
                env=_environment(
                    {
                        "VGW_PORT": f":{ports.OBJECT_STORE}",
                        "VGW_CERT": f"{_MOUNTS['certificate']}/tls.crt",
                        "VGW_KEY": f"{_MOUNTS['certificate']}/tls.key",
                        "VGW_HEALTH": _HEALTH,
                    }
                ),
                ports=[ContainerPortArgs(name="s3", container_port=ports.OBJECT_STORE)],
                resources=ResourceRequirementsArgs(requests={"cpu": "20m", "memory": "64Mi"}),
                security_context=container_security(),
                readiness_probe=_probe(failures=2),
                liveness_probe=_probe(failures=6),
                volume_mounts=_mounts("data", "users", "certificate"),
            ),
            ContainerArgs(
                name="prune-history",
                image=IMAGE,
                command=_script(_PRUNE_HISTORY, f"{_BUCKETS}/{state_bucket}"),
                resources=ResourceRequirementsArgs(requests={"cpu": "5m", "memory": "8Mi"}),
                security_context=container_security(),
                volume_mounts=_mounts("data", "scripts"),
            ),
        ],
        volumes=[
            VolumeArgs(
                name="data",
                persistent_volume_claim=PersistentVolumeClaimVolumeSourceArgs(claim_name=NAME),
            ),
            VolumeArgs(name="users", secret=SecretVolumeSourceArgs(secret_name=_USERS_SECRET)),
            VolumeArgs(
                name="certificate", secret=SecretVolumeSourceArgs(secret_name=_CERTIFICATE_SECRET)
            ),
            VolumeArgs(name="scripts", config_map=ConfigMapVolumeSourceArgs(name=NAME)),
        ],
    )


def _script(script: Path, *arguments: str) -> list[str]:
    return ["sh", f"{_MOUNTS['scripts']}/{script.name}", *arguments]


def _environment(values: Mapping[str, str]) -> list[EnvVarArgs]:
    plain = {
        "VGW_REGION": REGION,
        "VGW_IAM_DIR": _MOUNTS["users"],
        # With a port of its own, the API for administrators is on no other.
        "VGW_ADMIN_PORT": f"127.0.0.1:{ports.OBJECT_STORE + 1}",
        # Its cache mixes users up whose names have one length: in 1.8.0, a key of it is memory that
        # the next request overwrites.
        "VGW_IAM_CACHE_DISABLE": "true",
        **values,
    }
    return [
        *(EnvVarArgs(name=name, value=value) for name, value in plain.items()),
        *(
            EnvVarArgs(
                name=f"ROOT_{key.upper()}_KEY",
                value_from=EnvVarSourceArgs(
                    secret_key_ref=SecretKeySelectorArgs(name=_ROOT_SECRET, key=key)
                ),
            )
            for key in ("access", "secret")
        ),
    ]


def _mounts(*names: str) -> list[VolumeMountArgs]:
    return [
        VolumeMountArgs(name=name, mount_path=_MOUNTS[name], read_only=name != "data")
        for name in names
    ]


def _probe(*, failures: int) -> ProbeArgs:
    return ProbeArgs(
        http_get=HTTPGetActionArgs(path=_HEALTH, port=ports.OBJECT_STORE, scheme="HTTPS"),
        period_seconds=5,
        timeout_seconds=5,
        failure_threshold=failures,
    )
