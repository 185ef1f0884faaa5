"""Persistent volumes from Cinder."""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes import storage
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

import versions
from addons import cloud_conf
from addons.chart import Chart
from addons.cloud_conf import Credential
from addons.installer import Installer
from addons.scheduling import (
    CONTROL_PLANE_SELECTOR,
    CONTROL_PLANE_TOLERATIONS,
    replicas_on_control_planes,
)
from config.models.addons import CinderCsi, StorageClass

CHART = Chart(
    name="openstack-cinder-csi",
    version=versions.CINDER_CSI_CHART,
    repository="https://kubernetes.github.io/cloud-provider-openstack",
)
DRIVER = "cinder.csi.openstack.org"
SECRET = "cinder-csi-cloud-config"  # noqa: S105 - its name
NODE_SECRET = "cinder-csi-node-config"  # noqa: S105 - its name


def values(
    *,
    cluster_id: pulumi.Input[str],
    control_plane_count: int,
    config_checksum: pulumi.Input[str],
) -> dict[str, Any]:
    """Return values for a driver whose controller alone has the credential."""
    controller = {
        "podAnnotations": {"checksum/cloud-config": config_checksum},
        "replicas": replicas_on_control_planes(control_plane_count),
        # The credential stays on the control planes.
        "nodeSelector": CONTROL_PLANE_SELECTOR,
        "tolerations": CONTROL_PLANE_TOLERATIONS,
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {
                                "matchLabels": {
                                    "app": "openstack-cinder-csi",
                                    "component": "controllerplugin",
                                }
                            },
                        },
                    }
                ]
            }
        },
    }
    return {
        # Marks every volume, so that the volumes of a destroyed cluster can be found.
        "clusterID": cluster_id,
        "priorityClassName": "system-cluster-critical",
        "secret": {
            "enabled": True,
            "create": False,
            "name": SECRET,
            "filename": cloud_conf.FILE,
        },
        "storageClass": {"enabled": False},
        "csi": {
            "plugin": {
                # The CA is in the Secret, not on the host.
                "volumes": [],
                "volumeMounts": [
                    {"name": "cloud-config", "mountPath": cloud_conf.MOUNT, "readOnly": True}
                ],
                "controllerPlugin": controller,
            }
        },
    }


def install(
    installer: Installer,
    settings: CinderCsi,
    *,
    cluster_id: pulumi.Input[str],
    control_plane_count: int,
    credential: Credential,
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install the driver and the storage classes."""
    config = cloud_conf.secret(
        installer,
        SECRET,
        credential.sections(),
        settings.cloud_config,
        credential.ca_certificate,
    )
    # The node plugin needs no login, only the other sections of cloud.conf.
    node_config = cloud_conf.secret(
        installer,
        NODE_SECRET,
        {},
        {name: keys for name, keys in settings.cloud_config.items() if name != "Global"},
    )
    for each in settings.storage_classes:
        _storage_class(installer, each)
    return installer.chart(
        CHART,
        namespace="kube-system",
        values=values(
            cluster_id=cluster_id,
            control_plane_count=control_plane_count,
            config_checksum=cloud_conf.checksum(config),
        ),
        overrides=settings.values,
        after=[*after, config, node_config],
        transforms=[without_credential],
    )


def without_credential(
    args: pulumi.ResourceTransformArgs,
) -> pulumi.ResourceTransformResult | None:
    """Keep the credential off the nodes: the chart gives both plugins the same Secret."""
    if args.type_ != "kubernetes:apps/v1:DaemonSet":
        return None
    spec: Any = args.props["spec"]
    for volume in spec["template"]["spec"]["volumes"]:
        if volume.get("secret", {}).get("secretName") == SECRET:
            volume["secret"]["secretName"] = NODE_SECRET
    return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)


def _storage_class(installer: Installer, settings: StorageClass) -> storage.v1.StorageClass:
    parameters: dict[str, str] = {"csi.storage.k8s.io/fstype": settings.filesystem}
    if settings.volume_type is not None:
        parameters["type"] = settings.volume_type
    if settings.availability_zone is not None:
        parameters["availability"] = settings.availability_zone
    return storage.v1.StorageClass(
        f"{installer.name}-{settings.name}",
        metadata=ObjectMetaArgs(
            name=settings.name,
            annotations={
                "storageclass.kubernetes.io/is-default-class": str(settings.default).lower()
            },
        ),
        provisioner=DRIVER,
        parameters=parameters,
        reclaim_policy=settings.reclaim_policy,
        # The volume is created in the zone of the pod's node.
        volume_binding_mode="WaitForFirstConsumer",
        allow_volume_expansion=True,
        opts=installer.options(),
    )
