"""Snapshots of etcd: how often, where they go, and which one a lost cluster begins with again."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from config.base import Name, Settings, Url
from config.values.machine import Pem


def _object_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", value):
        raise ValueError("must be of letters, digits, '.', '_', '-' and '/' only")
    return value


# What is put into a URL as it is, by a script.
ObjectName = Annotated[str, AfterValidator(_object_name)]


class Bucket(Settings):
    """A bucket in an object store that speaks S3: Swift, Ceph, MinIO, or one elsewhere."""

    endpoint: Url
    """URL of the store, such as `https://object.example.org`; the bucket comes into its path."""
    name: ObjectName
    """Name of the bucket, which exists already."""
    access_key: Name
    """ID of the access key; the key itself is the secret `backupSecretKey`."""
    region: ObjectName = "us-east-1"
    """Region that requests are signed for; most stores of clouds take any."""
    # Of five control planes they must fit into one page of the store's, 1000.
    keep: Annotated[int, Field(ge=1, le=180)] = 28
    """Number of snapshots kept of each control plane."""
    ca_certificate: Pem | None = None
    """PEM certificate of the CA that signed the store's; the default is the system's list."""


class Backup(Settings):
    """Snapshots of etcd, which every control plane takes of its own member."""

    enabled: bool = True
    """Whether they are taken."""
    interval_hours: Annotated[int, Field(ge=1, le=168)] = 6
    """Hours between two snapshots."""
    keep: Annotated[int, Field(ge=1)] = 8
    """Number of snapshots kept on each control plane's disk."""
    bucket: Bucket | None = None
    """Where each snapshot is copied to; without it they are lost with the control planes."""
    restore: ObjectName | None = None
    """Name of a snapshot in the bucket. A cluster that has no control plane any more begins with it
    instead of empty, and keeps what etcd's volume had; one that has is not touched. Take it out
    afterwards."""

    @property
    def places(self) -> tuple[str, ...]:
        """Where the newest snapshot must never be old, as the metrics name it."""
        if not self.enabled:
            return ()
        return ("disk",) if self.bucket is None else ("disk", "bucket")
