"""Settings of a control plane for snapshots of etcd, and for beginning again with one."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

import versions
from addons.image_mirror import mirrored
from components.packing import environment_file
from components.pki import Pki
from config.models.backup import Backup
from config.models.cluster import Cluster

# Has etcdutl. Kubernetes' own etcd image is tried first, but had none for years.
ETCD_IMAGE = f"gcr.io/etcd-development/etcd:{versions.ETCD_TOOLS}"


def backup_variables(cluster: Cluster, *, initializes: bool) -> Mapping[str, str]:
    """The `node.env` keys; `initializes` if this control plane may begin a cluster."""
    backup = cluster.backup
    values = {
        "BACKUP_KEEP": str(backup.keep),
        "ETCD_IMAGE": mirrored(ETCD_IMAGE, cluster.addons.image_registry),
    }
    if backup.enabled:
        values["BACKUP_HOURS"] = str(backup.interval_hours)
    if backup.restore is not None and initializes:
        values["RESTORE"] = backup.restore
    return values


def backup_files(
    backup: Backup, secret_key: pulumi.Input[str] | None, pki: Pki
) -> Mapping[str, pulumi.Input[str]]:
    """The files that name the bucket, and the keys of its objects; none if there is no bucket."""
    bucket = backup.bucket
    if bucket is None:
        return {}
    found: dict[str, pulumi.Input[str]] = {
        "bucket.env": pulumi.Output.all(pulumi.Output.secret(secret_key), pki.cluster_id).apply(
            lambda known: environment_file(
                {
                    "BUCKET_ENDPOINT": bucket.endpoint.rstrip("/"),
                    "BUCKET_REGION": bucket.region,
                    "BUCKET_NAME": bucket.name,
                    # Another cluster of the same name has another folder.
                    "BUCKET_FOLDER": known[1],
                    "BUCKET_KEEP": bucket.keep,
                    "BUCKET_ACCESS_KEY": bucket.access_key,
                    "BUCKET_SECRET_KEY": known[0],
                }
            )
        ),
        "backup.crt": pki.backups[-1].public,
        "backup.key": pki.backups[-1].private,
        # Snapshots that were taken before a rotation are still to be proved and restored.
        **{
            f"backup-{generation}.key": earlier.private
            for generation, earlier in enumerate(pki.backups[:-1], start=1)
        },
    }
    if bucket.ca_certificate is not None:
        found["bucket-ca.crt"] = bucket.ca_certificate
    return found
