"""Snapshots of persistent volumes: the snapshot controller, its CRDs and a class for Cinder."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons import cinder_csi, crds, snapshot_schedules
from addons.chart import Chart
from addons.installer import Installer
from addons.scheduling import CONTROL_PLANE_TOLERATIONS
from config.models.addons import Snapshots

CHART = Chart(
    name="snapshot-controller",
    version=versions.SNAPSHOT_CONTROLLER_CHART,
    repository="https://piraeus.io/helm-charts",
)
CLASS = "cinder"


def values(settings: Snapshots) -> dict[str, Any]:
    """Return values with one snapshot class, which is the default one."""
    return {
        "controller": {
            "priorityClassName": "system-cluster-critical",
            "tolerations": CONTROL_PLANE_TOLERATIONS,
        },
        "volumeSnapshotClasses": [
            {
                "name": CLASS,
                "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
                "driver": cinder_csi.DRIVER,
                "deletionPolicy": settings.deletion_policy,
                # Without it, Cinder refuses snapshots of volumes that pods are using.
                "parameters": {"force-create": "true"},
            }
        ],
    }


def install(
    installer: Installer, settings: Snapshots, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install the controller, and the scheduled jobs that take snapshots."""
    chart = installer.chart(
        CHART,
        namespace="kube-system",
        values=values(settings),
        overrides=settings.values,
        after=after,
        transforms=[crds.keep, crds.without_descriptions],
    )
    if settings.schedules:
        snapshot_schedules.install(
            installer,
            settings.schedules,
            image=settings.schedule_image,
            snapshot_class=CLASS,
            after=[chart],
        )
    return chart
