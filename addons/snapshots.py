"""Snapshots of persistent volumes: the snapshot controller, its CRDs and a class for Cinder."""

from collections.abc import Sequence
from typing import Any

import pulumi

import versions
from addons import cinder_csi, crds, snapshot_schedules
from addons.chart import Chart
from addons.install import ON_CONTROL_PLANES_TOO, Installer
from config.models.addons import Snapshots

CHART = Chart(
    name="snapshot-controller",
    version=versions.SNAPSHOT_CONTROLLER_CHART,
    repository="https://piraeus.io/helm-charts",
)
CLASS = "cinder"


def values(settings: Snapshots) -> dict[str, Any]:
    """One class, the default."""
    return {
        "controller": {
            "priorityClassName": "system-cluster-critical",
            "tolerations": ON_CONTROL_PLANES_TOO,
        },
        "volumeSnapshotClasses": [
            {
                "name": CLASS,
                "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
                "driver": cinder_csi.DRIVER,
                "deletionPolicy": settings.deletion_policy,
                # Else Cinder refuses a snapshot of a volume that a pod is using.
                "parameters": {"force-create": "true"},
            }
        ],
    }


def install(
    installer: Installer, settings: Snapshots, *, after: Sequence[pulumi.Resource]
) -> pulumi.Resource:
    """Install it, and what takes snapshots by itself."""
    chart = installer.chart(
        CHART,
        namespace="kube-system",
        values=values(settings),
        overrides=settings.values,
        after=after,
        transforms=[keep_kinds, crds.without_descriptions],
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


def keep_kinds(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Leave the CRDs in the cluster: with them would go every snapshot, in Cinder too."""
    if args.type_ != crds.TYPE:
        return None
    args.opts.retain_on_delete = True
    return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)
