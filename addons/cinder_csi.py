"""Persistent volumes from Cinder."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes import storage
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

import versions
from addons import cloud_conf
from addons.chart import Chart
from addons.cloud_conf import CloudConfig, Credential
from addons.installer import Installer
from addons.scheduling import (
    CONTROL_PLANE_SELECTOR,
    CONTROL_PLANE_TOLERATIONS,
    replicas_on_control_planes,
)
from config.models.addons import CinderCsi, StorageClass
from config.reserved import NO_SERVER

CHART = Chart(
    name="openstack-cinder-csi",
    version=versions.CINDER_CSI_CHART,
    repository="https://kubernetes.github.io/cloud-provider-openstack",
)
DRIVER = "cinder.csi.openstack.org"
# Of the node plugin, without a login.
NODE_CONFIG = "cinder-csi-node-config"


def values(
    *,
    cluster_id: pulumi.Input[str],
    control_plane_count: int,
    config_checksum: pulumi.Input[str],
    node_checksum: str,
    zoned: pulumi.Input[bool],
) -> dict[str, Any]:
    """Return values for a driver whose controller alone logs in to the cloud."""
    known: pulumi.Output[bool] = pulumi.Output.from_input(zoned)
    controller = {
        "podAnnotations": {"checksum/cloud-config": config_checksum},
        "replicas": replicas_on_control_planes(control_plane_count),
        # Where its cloud.conf is.
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
            "name": NODE_CONFIG,
            "filename": cloud_conf.FILE,
        },
        "storageClass": {"enabled": False},
        "csi": {
            # In a zone that Cinder does not have, no volume could be made.
            "provisioner": {"topology": known.apply(lambda zones: str(zones).lower())},
            "plugin": {
                "extraArgs": known.apply(lambda zones: {} if zones else "- --with-topology=false"),
                # The CA is in the Secret, not on the host.
                "volumes": [],
                "volumeMounts": [
                    {"name": "cloud-config", "mountPath": cloud_conf.MOUNT, "readOnly": True}
                ],
                "controllerPlugin": controller,
                # It reads the file once.
                "nodePlugin": {
                    "podAnnotations": {"checksum/cloud-config": node_checksum},
                    # Elsewhere it finds no metadata of a server, and ends.
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchExpressions": [
                                            {"key": NO_SERVER, "operator": "DoesNotExist"}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                },
            },
        },
    }


def cloud_config(settings: CinderCsi, credential: Credential) -> CloudConfig:
    """Return the controller's cloud.conf."""
    return CloudConfig(CHART.name, credential, settings.cloud_config)


def install(
    installer: Installer,
    settings: CinderCsi,
    *,
    cluster_id: pulumi.Input[str],
    control_plane_count: int,
    config: CloudConfig,
    zoned: pulumi.Input[bool],
    after: Sequence[pulumi.Resource],
) -> pulumi.Resource:
    """Install the driver and the storage classes.

    Args:
        installer: where.
        settings: those of the user.
        cluster_id: marks all volumes.
        control_plane_count: of the cluster.
        config: the controller's cloud.conf.
        zoned: whether a volume is made in the zone of its pod.
        after: what must be there.
    """
    # The node plugin needs no login, only the other sections.
    sections = {name: keys for name, keys in settings.cloud_config.items() if name != "Global"}
    text = cloud_conf.text(sections, {})
    files = {cloud_conf.FILE: text}
    node_config = installer.secret(NODE_CONFIG, "kube-system", pulumi.Output.from_input(files))
    for each in settings.storage_classes:
        _storage_class(installer, each)
    return installer.chart(
        CHART,
        namespace="kube-system",
        values=values(
            cluster_id=cluster_id,
            control_plane_count=control_plane_count,
            config_checksum=config.checksum,
            zoned=zoned,
            node_checksum=hashlib.sha256(text.encode()).hexdigest(),
        ),
        overrides=settings.values,
        after=[*after, node_config],
        transforms=[config_of_the_controller(config)],
    )


def config_of_the_controller(config: CloudConfig) -> pulumi.ResourceTransform:
    """Mount the control plane's folder: the chart has the same Secret for both plugins."""

    def transform(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if args.type_ != "kubernetes:apps/v1:Deployment":
            return None
        spec: Any = args.props["spec"]
        for volume in spec["template"]["spec"]["volumes"]:
            if volume.get("secret", {}).get("secretName") == NODE_CONFIG:
                del volume["secret"]
                volume["hostPath"] = {"path": config.host_path, "type": "Directory"}
        return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)

    return transform


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
        opts=pulumi.ResourceOptions.merge(
            installer.options(),
            # Kubernetes changes it in no class; volumes that exist keep theirs.
            pulumi.ResourceOptions(
                replace_on_changes=["reclaimPolicy"], delete_before_replace=True
            ),
        ),
    )
