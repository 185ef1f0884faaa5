"""An object store with the S3 API for other clusters: versitygw on a persistent volume."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1 import (
    PersistentVolumeClaimSpecArgs,
    ServicePortArgs,
    ServiceSpecArgs,
    VolumeResourceRequirementsArgs,
)
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs

from addons.installer import Installer
from addons.object_store import keys, pod
from config import ports
from config.models.addons import ETCD_BUCKET, ObjectStore

NAMESPACE = "object-store"
# The bucket for the state of stacks.
STATE_BUCKET = "pulumi-state"


@dataclass(frozen=True, kw_only=True)
class StoreAddress:
    """The names and addresses at which the gateways answer for the store."""

    # Of these, users are told the first one.
    addresses: Sequence[pulumi.Input[str]]
    names: Sequence[str]

    @property
    def endpoint(self) -> pulumi.Output[str]:
        """The URL that users are told."""
        return pulumi.Output.concat("https://", self.addresses[0], f":{ports.OBJECT_STORE}")


def buckets(settings: ObjectStore) -> list[str]:
    """Return every bucket; each belongs to the user of the same name."""
    return [STATE_BUCKET, *(f"{ETCD_BUCKET}{cluster}" for cluster in settings.clusters)]


def install(
    installer: Installer,
    settings: ObjectStore,
    *,
    address: StoreAddress,
    protect: bool,
    after: Sequence[pulumi.Resource],
) -> Mapping[str, Any]:
    """Install the store; returns what its users need, the stack's output.

    With `protect`, the volume is neither deleted nor replaced.
    """
    namespace = installer.namespace(
        NAMESPACE,
        after=after,
        security="restricted",
        protect=protect,
        node_port_target=ports.OBJECT_STORE,
    )
    authority, certificate = keys.certificates(
        installer, addresses=address.addresses, names=address.names
    )
    secret_keys = keys.secret_keys(installer, [keys.ROOT, *buckets(settings)])
    volume = _volume(installer, settings, namespace, protect=protect)
    files = pod.files(
        installer,
        NAMESPACE,
        certificate=certificate,
        secret_keys=secret_keys,
        after=[namespace],
    )
    pod.deploy(
        installer,
        NAMESPACE,
        buckets=buckets(settings),
        state_bucket=STATE_BUCKET,
        checksum=files.checksum,
        after=[*after, volume, *files.objects],
    )
    _service(installer, namespace)
    return _output(settings, address, authority, secret_keys)


def _volume(
    installer: Installer, settings: ObjectStore, namespace: pulumi.Resource, *, protect: bool
) -> pulumi.Resource:
    return kubernetes.core.v1.PersistentVolumeClaim(
        f"{installer.name}-{NAMESPACE}",
        metadata=ObjectMetaArgs(
            name=pod.NAME,
            namespace=NAMESPACE,
            # It is bound when the pod is scheduled, which comes later.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=PersistentVolumeClaimSpecArgs(
            access_modes=["ReadWriteOnce"],
            resources=VolumeResourceRequirementsArgs(requests={"storage": settings.storage_size}),
            storage_class_name=settings.storage_class,
        ),
        opts=pulumi.ResourceOptions.merge(
            installer.options([namespace]), pulumi.ResourceOptions(protect=protect)
        ),
    )


def _service(installer: Installer, namespace: pulumi.Resource) -> None:
    kubernetes.core.v1.Service(
        f"{installer.name}-{NAMESPACE}",
        metadata=ObjectMetaArgs(name=pod.NAME, namespace=NAMESPACE),
        spec=ServiceSpecArgs(
            type="NodePort",
            selector=pod.LABELS,
            ports=[
                ServicePortArgs(
                    name="s3",
                    port=ports.OBJECT_STORE,
                    node_port=ports.OBJECT_STORE_NODE_PORT,
                )
            ],
        ),
        opts=installer.options([namespace]),
    )


def _output(
    settings: ObjectStore,
    address: StoreAddress,
    authority: pulumi.Output[str],
    secret_keys: Mapping[str, pulumi.Output[str]],
) -> Mapping[str, Any]:
    def bucket(name: str) -> Mapping[str, pulumi.Input[str]]:
        return {
            "endpoint": address.endpoint,
            "name": name,
            "accessKey": name,
            "region": pod.REGION,
            "caCertificate": authority,
        }

    def url(endpoint: str) -> str:
        query = urlencode({"endpoint": endpoint, "region": pod.REGION, "s3ForcePathStyle": "true"})
        return f"s3://{STATE_BUCKET}?{query}"

    return {
        "endpoint": address.endpoint,
        "caCertificate": authority,
        "pulumi": {
            "url": address.endpoint.apply(url),
            "accessKey": STATE_BUCKET,
            "secretKey": secret_keys[STATE_BUCKET],
        },
        "clusters": {
            cluster: {
                "bucket": bucket(f"{ETCD_BUCKET}{cluster}"),
                "secretKey": secret_keys[f"{ETCD_BUCKET}{cluster}"],
            }
            for cluster in settings.clusters
        },
    }
