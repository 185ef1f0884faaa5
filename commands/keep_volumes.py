"""Marks the volumes that `commands.cloud_cleanup --keep-volumes` does not delete.

They are those of PersistentVolumes with the reclaim policy `Retain`; all volumes of the cluster if
its API does not answer. `pulumi destroy` runs it before it deletes anything, if `keepVolumes` is
set. By hand: `KUBECONFIG_TEXT=$(pulumi stack output kubeconfig --show-secrets) python -m
commands.keep_volumes CLUSTER_ID`, with a login in the environment as for the cleanup.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

import httpx
from openstack.connection import Connection

from cloud.errors import CLOUD_ERRORS
from cloud.login import connect_from_environment
from commands import argument_types
from commands.cloud_cleanup import KEEP_MARK, volumes_of
from commands.kubernetes_api import Administrator, KubeconfigError, patiently
from config.errors import ConfigError

CSI_DRIVER = "cinder.csi.openstack.org"


@patiently
def retained(kubeconfig: str) -> set[str]:
    """Ids of the Cinder volumes whose PersistentVolume says `Retain`."""
    with Administrator.of(kubeconfig).client() as api:
        answer = api.get("/api/v1/persistentvolumes")
    specs = [each["spec"] for each in answer.raise_for_status().json()["items"]]
    return {
        spec["csi"]["volumeHandle"]
        for spec in specs
        if spec["persistentVolumeReclaimPolicy"] == "Retain"
        and spec.get("csi", {}).get("driver") == CSI_DRIVER
    }


def mark(cloud: Connection, cluster_id: str, wanted: set[str] | None) -> Iterator[str]:
    """Mark the volumes with these IDs only, None for all of the cluster; says what it did."""
    for volume in volumes_of(cloud, cluster_id):
        if wanted is None or volume.id in wanted:
            cloud.block_storage.set_volume_metadata(volume, **{KEEP_MARK: "true"})
            yield f"keeping volume {volume.name}"
        elif KEEP_MARK in volume.metadata:
            # Of a destroy that was stopped, or when the API did not answer.
            cloud.block_storage.delete_volume_metadata(volume, keys=[KEEP_MARK])
            yield f"no longer keeping volume {volume.name}"


def main(cluster_id: str) -> int:
    """Mark them; returns the exit status, 1 when the cloud does not answer."""
    try:
        cloud = connect_from_environment()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    wanted: set[str] | None = None
    try:
        wanted = retained(os.environ.get("KUBECONFIG_TEXT", ""))
    except (httpx.HTTPError, httpx.InvalidURL, KubeconfigError, ValueError) as problem:
        print(
            f"the Kubernetes API of {cluster_id} does not say which volumes to retain ({problem}): "
            "every volume of the cluster is kept"
        )
    try:
        for line in mark(cloud, cluster_id, wanted):
            print(line)
    except CLOUD_ERRORS as error:
        print(
            f"not every volume of {cluster_id} is marked: {error}; run this again", file=sys.stderr
        )
        return 1
    return 0


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line: with a wrong ID, no volume would be kept."""
    parser = argparse.ArgumentParser(
        prog="python -m commands.keep_volumes",
        description="Mark the volumes of a cluster that outlive it.",
    )
    parser.add_argument(
        "cluster_id",
        type=argument_types.cluster_id,
        help="the output `clusterId` of its stack, such as demo-1a2b3c4d",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(arguments(sys.argv[1:]).cluster_id))
