"""Scheduled snapshots of persistent volumes: a CronJob for each schedule."""

from collections.abc import Sequence
from pathlib import Path

import pulumi
from pulumi_kubernetes.batch.v1 import (
    CronJob,
    CronJobSpecArgs,
    JobSpecArgs,
    JobTemplateSpecArgs,
)
from pulumi_kubernetes.core.v1 import (
    ConfigMapVolumeSourceArgs,
    ContainerArgs,
    EnvVarArgs,
    EnvVarSourceArgs,
    ObjectFieldSelectorArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ResourceRequirementsArgs,
    ServiceAccount,
    TolerationArgs,
    VolumeArgs,
    VolumeMountArgs,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding

import versions
from addons import cinder_csi
from addons.installer import Installer
from addons.rbac import role_ref, rule, service_account
from addons.scheduling import CONTROL_PLANE_TOLERATIONS
from addons.unprivileged import container_security, pod_security
from config.models.addons import SnapshotSchedule

NAMESPACE = "snapshots"
IMAGE = f"docker.io/library/python:{versions.SNAPSHOT_PYTHON}"

_NAME = "take-snapshots"
_GROUP = "snapshot.storage.k8s.io"
_PROGRAM = Path(__file__).with_name("programs") / "take_snapshots.py"
_FOLDER = "/program"
# Limits for the snapshots of one run to become ready, and for the whole run.
_WAIT_SECONDS = 1800
_LONGEST_RUN_SECONDS = 3600


def install(
    installer: Installer,
    schedules: Sequence[SnapshotSchedule],
    *,
    image: str | None,
    snapshot_class: str,
    after: Sequence[pulumi.Resource],
) -> None:
    """Install the program, its rights, and a CronJob for each schedule."""
    namespace = installer.namespace(NAMESPACE, after=after, security="restricted")
    program = installer.config_map(
        _NAME, NAMESPACE, {_PROGRAM.name: _PROGRAM.read_text()}, after=[namespace]
    )
    rights = _rights(installer, namespace)
    for schedule in schedules:
        CronJob(
            f"{installer.name}-snapshots-{schedule.name}",
            metadata=ObjectMetaArgs(name=schedule.name, namespace=NAMESPACE),
            spec=CronJobSpecArgs(
                schedule=schedule.schedule,
                time_zone="Etc/UTC",
                concurrency_policy="Forbid",
                # A run that is later than that is left out.
                starting_deadline_seconds=_LONGEST_RUN_SECONDS,
                successful_jobs_history_limit=1,
                failed_jobs_history_limit=3,
                job_template=JobTemplateSpecArgs(
                    spec=JobSpecArgs(
                        backoff_limit=2,
                        active_deadline_seconds=_LONGEST_RUN_SECONDS,
                        template=PodTemplateSpecArgs(
                            metadata=ObjectMetaArgs(labels={"app.kubernetes.io/name": _NAME}),
                            spec=_pod(schedule, image or IMAGE, snapshot_class),
                        ),
                    )
                ),
            ),
            opts=installer.options([*after, program, *rights]),
        )


def _rights(installer: Installer, namespace: pulumi.Resource) -> list[pulumi.Resource]:
    """Create rights to list claims and to create and delete snapshots, but not to read data."""
    name = f"{installer.name}-{_NAME}"
    return [
        ServiceAccount(
            name,
            metadata=ObjectMetaArgs(name=_NAME, namespace=NAMESPACE),
            opts=installer.options([namespace]),
        ),
        ClusterRole(
            name,
            metadata=ObjectMetaArgs(name=_NAME),
            rules=[
                rule("", "persistentvolumeclaims", "list"),
                rule(_GROUP, "volumesnapshots", "get", "list", "create", "delete"),
            ],
            opts=installer.options(),
        ),
        ClusterRoleBinding(
            name,
            metadata=ObjectMetaArgs(name=_NAME),
            role_ref=role_ref("ClusterRole", _NAME),
            subjects=[service_account(_NAME, NAMESPACE)],
            opts=installer.options(),
        ),
    ]


def _pod(schedule: SnapshotSchedule, image: str, snapshot_class: str) -> PodSpecArgs:
    return PodSpecArgs(
        service_account_name=_NAME,
        restart_policy="Never",
        tolerations=[
            TolerationArgs(key=each["key"], operator=each["operator"], effect=each["effect"])
            for each in CONTROL_PLANE_TOLERATIONS
        ],
        security_context=pod_security(),
        containers=[
            ContainerArgs(
                name=_NAME,
                image=image,
                command=["python3", "-B", f"{_FOLDER}/{_PROGRAM.name}"],
                env=[
                    *(
                        EnvVarArgs(name=name, value=value)
                        for name, value in _environment(schedule, snapshot_class).items()
                    ),
                    EnvVarArgs(name="JOB", value_from=_label("batch.kubernetes.io/job-name")),
                ],
                resources=ResourceRequirementsArgs(requests={"cpu": "10m", "memory": "32Mi"}),
                security_context=container_security(),
                volume_mounts=[VolumeMountArgs(name="program", mount_path=_FOLDER, read_only=True)],
            )
        ],
        volumes=[
            VolumeArgs(name="program", config_map=ConfigMapVolumeSourceArgs(name=_NAME)),
        ],
    )


def _environment(schedule: SnapshotSchedule, snapshot_class: str) -> dict[str, str]:
    return {
        "SCHEDULE": schedule.name,
        "KEEP": str(schedule.keep),
        "SELECTOR": ",".join(f"{key}={value}" for key, value in schedule.selector.items()),
        "NAMESPACES": " ".join(schedule.namespaces),
        "SNAPSHOT_CLASS": snapshot_class,
        "DRIVER": cinder_csi.DRIVER,
        "WAIT_SECONDS": str(_WAIT_SECONDS),
        "LONGEST_RUN_SECONDS": str(_LONGEST_RUN_SECONDS),
    }


def _label(name: str) -> EnvVarSourceArgs:
    return EnvVarSourceArgs(
        field_ref=ObjectFieldSelectorArgs(field_path=f"metadata.labels['{name}']")
    )
