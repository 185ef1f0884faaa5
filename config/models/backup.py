"""Snapshots of etcd, their copies in a bucket, and the restore of a lost cluster."""

from typing import Annotated

from pydantic import Field

from config.base import Settings
from config.values.network import Url
from config.values.repositories import BucketName, ObjectName
from config.values.text import Name, Pem


class Bucket(Settings):
    """A bucket in an object store with the S3 API: Swift, Ceph, MinIO, or one outside of the
    cloud."""

    endpoint: Url
    """URL of the object store, such as `https://object.example.org`, without the bucket."""
    name: BucketName
    """Name of the bucket, which must exist."""
    access_key: Name
    """ID of the access key; set its secret key as `backupSecretKey`."""
    region: BucketName = "us-east-1"
    """Region for which requests are signed; most clouds accept any."""
    # Of five control planes they must fit into one page of the store's, 1000.
    keep: Annotated[int, Field(ge=1, le=180)] = 28
    """Number of snapshots to keep in the bucket for each control plane."""
    ca_certificate: Pem | None = None
    """CA certificate of the object store, in PEM; the default is the system's list of CAs."""


class Backup(Settings):
    """Snapshots of etcd; every control plane takes them of its own member."""

    enabled: bool = True
    """Take snapshots."""
    interval_hours: Annotated[int, Field(ge=1, le=168)] = 6
    """Hours between two snapshots."""
    keep: Annotated[int, Field(ge=1)] = 8
    """Number of snapshots to keep on the disk of each control plane."""
    bucket: Bucket | None = None
    """Bucket that each snapshot is copied to; without it, they are lost with the control planes."""
    restore: ObjectName | None = None
    """Name of a snapshot in the bucket, to restore a cluster that has lost all control planes. Data
    on etcd volumes is set aside, not deleted; a cluster with a control plane is not touched. Remove
    the key afterwards."""

    @property
    def places(self) -> tuple[str, ...]:
        """The places that must have a recent snapshot, by their names in the metrics."""
        if not self.enabled:
            return ()
        return ("disk",) if self.bucket is None else ("disk", "bucket")
