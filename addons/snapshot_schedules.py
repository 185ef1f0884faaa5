"""Scheduled snapshots of persistent volumes: a CronJob for each schedule."""

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes.core.v1 import (
    EnvVarArgs,
    EnvVarSourceArgs,
    ObjectFieldSelectorArgs,
    ServiceAccount,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding

from addons import cinder_csi, scheduled_program
from addons.installer import Installer
from addons.rbac import role_ref, rule, service_account
from addons.scheduled_program import ScheduledProgram
from config.models.addons import SnapshotSchedule

NAMESPACE = "snapshots"

_NAME = "take-snapshots"
_GROUP = "snapshot.storage.k8s.io"
# Limits for the snapshots of one run to become ready, and for the whole run.
_WAIT_SECONDS = 1800
_LONGEST_RUN_SECONDS = 3600
# A run that failed is an alert as long as it is there: until Monday, if it was on Friday.
_FORGET_SECONDS = 3 * 24 * 3600


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
    program = ScheduledProgram(
        module="take_snapshots",
        namespace=NAMESPACE,
        longest_run_seconds=_LONGEST_RUN_SECONDS,
        retries=2,
        forget_after_seconds=_FORGET_SECONDS,
        image=image or scheduled_program.IMAGE,
    )
    files = program.files(installer, namespace)
    rights = _rights(installer, namespace)
    for schedule in schedules:
        program.cron_job(
            installer,
            f"snapshots-{schedule.name}",
            name=schedule.name,
            schedule=schedule.schedule,
            environment=_environment(schedule, snapshot_class),
            after=[*after, files, *rights],
        )


def _rights(installer: Installer, namespace: pulumi.Resource) -> list[pulumi.Resource]:
    """Create rights to list claims and volumes and to create and delete snapshots: none to data."""
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
                rule("", "persistentvolumes", "list"),
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


def _environment(schedule: SnapshotSchedule, snapshot_class: str) -> list[EnvVarArgs]:
    settings = {
        "SCHEDULE": schedule.name,
        "KEEP": str(schedule.keep),
        "SELECTOR": ",".join(f"{key}={value}" for key, value in schedule.selector.items()),
        "NAMESPACES": " ".join(schedule.namespaces),
        "SNAPSHOT_CLASS": snapshot_class,
        "DRIVER": cinder_csi.DRIVER,
        "WAIT_SECONDS": str(_WAIT_SECONDS),
        "LONGEST_RUN_SECONDS": str(_LONGEST_RUN_SECONDS),
    }
    return [
        *(EnvVarArgs(name=name, value=value) for name, value in settings.items()),
        EnvVarArgs(name="JOB", value_from=_label("batch.kubernetes.io/job-name")),
    ]


def _label(name: str) -> EnvVarSourceArgs:
    return EnvVarSourceArgs(
        field_ref=ObjectFieldSelectorArgs(field_path=f"metadata.labels['{name}']")
    )
