"""Programs of our own, in Python, that run in the cluster at certain times."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi
from pulumi_kubernetes.batch.v1 import (
    CronJob,
    CronJobSpecArgs,
    JobSpecArgs,
    JobTemplateSpecArgs,
)
from pulumi_kubernetes.core.v1 import (
    ConfigMap,
    ConfigMapVolumeSourceArgs,
    ContainerArgs,
    EnvVarArgs,
    PodSpecArgs,
    PodTemplateSpecArgs,
    ResourceRequirementsArgs,
    TolerationArgs,
    VolumeArgs,
    VolumeMountArgs,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

import versions
from addons.installer import Installer
from addons.scheduling import CONTROL_PLANE_TOLERATIONS
from addons.unprivileged import container_security, pod_security

IMAGE = f"docker.io/library/python:{versions.JOBS_PYTHON}"

_PROGRAMS = Path(__file__).with_name("programs")
_SHARED = "kubernetes_api"
# The programs import each other as they do here.
_FOLDER = "/program"
_PACKAGE = "addons/programs"


@dataclass(frozen=True, kw_only=True)
class ScheduledProgram:
    """A module of `addons.programs`, in a namespace with an account for it; both have its name."""

    module: str
    namespace: str
    # Time after which a run is ended, and after which one that has not begun is left out.
    longest_run_seconds: int
    retries: int
    image: str = IMAGE
    # Time after which a run is forgotten; None to keep the last ones.
    forget_after_seconds: int | None = None

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return self.module.replace("_", "-")

    def files(self, installer: Installer, namespace: pulumi.Resource) -> ConfigMap:
        """Create the ConfigMap with the program."""
        files = {
            f"{module}.py": (_PROGRAMS / f"{module}.py").read_text()
            for module in (self.module, _SHARED)
        }
        return installer.config_map(self.name, self.namespace, files, after=[namespace])

    def cron_job(
        self,
        installer: Installer,
        resource: str,
        *,
        name: str,
        schedule: str,
        environment: Sequence[EnvVarArgs] = (),
        after: Sequence[pulumi.Resource],
    ) -> CronJob:
        """Create a CronJob that runs it, in UTC."""
        job = JobSpecArgs(
            backoff_limit=self.retries,
            active_deadline_seconds=self.longest_run_seconds,
            ttl_seconds_after_finished=self.forget_after_seconds,
            template=PodTemplateSpecArgs(
                metadata=ObjectMetaArgs(labels={"app.kubernetes.io/name": self.name}),
                spec=self._pod(environment),
            ),
        )
        return CronJob(
            f"{installer.name}-{resource}",
            metadata=ObjectMetaArgs(name=name, namespace=self.namespace),
            spec=CronJobSpecArgs(
                schedule=schedule,
                time_zone="Etc/UTC",
                concurrency_policy="Forbid",
                starting_deadline_seconds=self.longest_run_seconds,
                successful_jobs_history_limit=1,
                failed_jobs_history_limit=3,
                job_template=JobTemplateSpecArgs(spec=job),
            ),
            opts=installer.options(after),
        )

    def _pod(self, environment: Sequence[EnvVarArgs]) -> PodSpecArgs:
        mount = VolumeMountArgs(name="program", mount_path=f"{_FOLDER}/{_PACKAGE}", read_only=True)
        return PodSpecArgs(
            service_account_name=self.name,
            restart_policy="Never",
            tolerations=[
                TolerationArgs(key=each["key"], operator=each["operator"], effect=each["effect"])
                for each in CONTROL_PLANE_TOLERATIONS
            ],
            security_context=pod_security(),
            containers=[
                ContainerArgs(
                    name=self.name,
                    image=self.image,
                    command=["python3", "-B", "-m", f"addons.programs.{self.module}"],
                    working_dir=_FOLDER,
                    env=list(environment),
                    resources=ResourceRequirementsArgs(requests={"cpu": "10m", "memory": "32Mi"}),
                    security_context=container_security(),
                    volume_mounts=[mount],
                )
            ],
            volumes=[
                VolumeArgs(name="program", config_map=ConfigMapVolumeSourceArgs(name=self.name))
            ],
        )
