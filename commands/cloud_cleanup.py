"""Deletes what the cluster's own controllers made in the cloud: load balancers, volumes and so on.

`pulumi destroy` runs it after the servers and before the network are deleted, so it needs no
Kubernetes API. By hand: `python -m commands.cloud_cleanup CLUSTER_ID`, the output `clusterId` of
its stack, with a login in the environment (`OS_CLOUD`, or `OS_AUTH_URL` and so on), as for the
OpenStack provider. With `--keep-volumes`, volumes that `commands.keep_volumes` has marked stay, and
so do their snapshots.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from openstack.connection import Connection
from openstack.exceptions import ForbiddenException, HttpException

from cloud import marks
from cloud.errors import CLOUD_ERRORS
from cloud.login import connect_from_environment
from commands import argument_types
from commands.waiting import until_no_fewer
from config.errors import ConfigError

CINDER = "block-storage"
# Cinder CSI marks the volumes and snapshots that it makes with the ID of their cluster.
CSI_MARK = "cinder.csi.openstack.org/cluster"
# `commands.keep_volumes` marks those that outlive the cluster.
KEEP_MARK = "openstack-kubernetes-keep"
# Seconds for the cloud to delete any of the rest: the data of a volume may be overwritten first.
PATIENCE = 300


def clean_up(cloud: Connection, cluster_id: str, *, keep_volumes: bool = False) -> list[str]:
    """Request the deletion of everything that was found; returns a description of each.

    With `keep_volumes`, marked volumes and their snapshots stay.
    """
    return [
        *_load_balancers(cloud, cluster_id),
        *_floating_ips(cloud, cluster_id),
        *_security_groups(cloud, cluster_id),
        *_volumes(cloud, cluster_id, keep=keep_volumes),
    ]


def _deleted(what: str, delete: Callable[[], object]) -> str:
    """The description of what is to be deleted, with the reason if the service refuses it now.

    A later round may succeed: what uses the resource may be gone by then.
    """
    try:
        delete()
    except HttpException as refusal:
        if refusal.source != "Client":
            raise
        return f"{what} (refused: {refusal.details or refusal})"
    return what


def _load_balancers(cloud: Connection, cluster_id: str) -> list[str]:
    if not cloud.has_service("load-balancer"):
        return []
    # The cloud controller names them kube_service_<cluster ID>_<namespace>_<service>.
    prefix = f"kube_service_{cluster_id}_"
    # Without the project, an administrator would see those of all projects, here and below.
    project = cloud.current_project_id
    try:
        listed = list(cloud.load_balancer.load_balancers(project_id=project))
    except ForbiddenException:
        # Octavia asks for a role of its own. The cluster's credential has none that the user lacks,
        # and has made none.
        return []
    # Those of others may have no name.
    ours = [balancer for balancer in listed if (balancer.name or "").startswith(prefix)]

    def delete(balancer: Any) -> None:  # noqa: ANN401
        # In any other state Octavia refuses; the next round tries again.
        if balancer.provisioning_status in ("ACTIVE", "ERROR"):
            cloud.load_balancer.delete_load_balancer(balancer, cascade=True)

    return [_deleted(f"load balancer {each.name}", partial(delete, each)) for each in ours]


def _floating_ips(cloud: Connection, cluster_id: str) -> list[str]:
    # The cloud controller writes "Floating IP for Kubernetes external service ... from cluster ".
    mark = f" from cluster {cluster_id}"
    listed = cloud.network.ips(project_id=cloud.current_project_id)
    ours = [address for address in listed if (address.description or "").endswith(mark)]
    delete = cloud.network.delete_ip
    return [
        _deleted(f"floating IP {each.floating_ip_address}", partial(delete, each)) for each in ours
    ]


def _security_groups(cloud: Connection, cluster_id: str) -> list[str]:
    # One for each Service behind Octavia: "Security Group for ... Service LoadBalancer in ...".
    mark = f" Service LoadBalancer in cluster {cluster_id}"
    listed = cloud.network.security_groups(project_id=cloud.current_project_id)
    ours = [group for group in listed if (group.description or "").endswith(mark)]
    # Neutron refuses while ports of nodes that are being deleted still use it.
    delete = cloud.network.delete_security_group
    return [_deleted(f"security group {each.name}", partial(delete, each)) for each in ours]


def _volumes(cloud: Connection, cluster_id: str, *, keep: bool) -> list[str]:
    if not cloud.has_service(CINDER):
        return []
    storage = cloud.block_storage
    volumes = volumes_of(cloud, cluster_id)
    stay = {volume.id for volume in volumes if keep and KEEP_MARK in volume.metadata}
    volumes = [volume for volume in volumes if volume.id not in stay]
    snapshots = [s for s in storage.snapshots() if _ours(s.metadata, cluster_id)]
    snapshots = [snapshot for snapshot in snapshots if snapshot.volume_id not in stay]
    with_snapshots = {snapshot.volume_id for snapshot in snapshots}

    def delete_snapshot(snapshot: Any) -> None:  # noqa: ANN401
        if snapshot.status != "deleting":
            storage.delete_snapshot(snapshot.id)

    def delete_volume(volume: Any) -> None:  # noqa: ANN401
        # Each goes after its snapshots, in a later round.
        if volume.id not in with_snapshots and volume.status in ("available", "error"):
            storage.delete_volume(volume.id)

    return [
        *(_deleted(f"snapshot {each.name}", partial(delete_snapshot, each)) for each in snapshots),
        *(_deleted(f"volume {each.name}", partial(delete_volume, each)) for each in volumes),
    ]


def volumes_of(cloud: Connection, cluster_id: str) -> list[Any]:
    """Every volume that Cinder CSI made in this cluster; none in a cloud without Cinder."""
    if not cloud.has_service(CINDER):
        return []
    return [each for each in cloud.block_storage.volumes() if _ours(each.metadata, cluster_id)]


def kept(cloud: Connection, cluster_id: str) -> list[str]:
    """A description of each volume that stays, and of each of its snapshots."""
    volumes = [each for each in volumes_of(cloud, cluster_id) if KEEP_MARK in each.metadata]
    if not volumes:
        return []
    ids = {volume.id for volume in volumes}
    snapshots = [s for s in cloud.block_storage.snapshots() if s.volume_id in ids]
    named = [*(("volume", v) for v in volumes), *(("snapshot", s) for s in snapshots)]
    return [f"{kind} {each.name} ({each.id}, {each.size} GiB)" for kind, each in named]


def _ours(metadata: dict[str, str] | None, cluster_id: str) -> bool:
    return (metadata or {}).get(CSI_MARK) == cluster_id


def servers(cloud: Connection, cluster_id: str) -> list[str]:
    """Names of the servers that the cluster still has."""
    listed = cloud.compute.servers()
    return [each.name for each in listed if marks.cluster_of(each) == cluster_id]


def main(cluster_id: str, *, keep_volumes: bool = False) -> int:
    """Clean up until nothing is left; returns the exit status.

    1 when something is left, the cloud does not answer, or the cluster has servers and so may be
    alive.
    """
    try:
        return _clean_up_all(connect_from_environment(), cluster_id, keep_volumes=keep_volumes)
    except ConfigError as error:
        print(error, file=sys.stderr)
    except CLOUD_ERRORS as error:
        problem = f"the cloud refuses a request or does not answer: {error}; run this again"
        print(problem, file=sys.stderr)
    except KeyboardInterrupt:
        print("\ninterrupted: it can be run again", file=sys.stderr)
        return 130
    return 1


def _clean_up_all(cloud: Connection, cluster_id: str, *, keep_volumes: bool) -> int:
    if there := servers(cloud, cluster_id):
        problem = f"nothing is deleted: delete the servers of {cluster_id} first"
        print(f"{problem}: {', '.join(there)}", file=sys.stderr)
        return 1

    told: set[str] = set()

    def clean() -> list[str]:
        found = clean_up(cloud, cluster_id, keep_volumes=keep_volumes)
        # Not in every round: there are a hundred of them.
        for each in found:
            if each not in told:
                print(f"deleting {each}")
        told.update(found)
        return found

    left = until_no_fewer(clean, PATIENCE, pause=3)
    for each in kept(cloud, cluster_id) if keep_volumes else []:
        print(f"kept {each}")
    if left:
        print(
            f"none of these has gone for {PATIENCE} s: {', '.join(left)}; delete them, unless the "
            "cloud is at it, then run this again",
            file=sys.stderr,
        )
    return 1 if left else 0


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line: a word that is not understood must not cost a volume."""
    parser = argparse.ArgumentParser(
        prog="python -m commands.cloud_cleanup",
        description="Delete what the controllers of a cluster without servers made in the cloud.",
    )
    parser.add_argument(
        "cluster_id",
        type=argument_types.cluster_id,
        help="the output `clusterId` of its stack, such as demo-1a2b3c4d",
    )
    parser.add_argument(
        "--keep-volumes",
        action="store_true",
        help="not the volumes that commands.keep_volumes has marked, nor their snapshots",
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    given = arguments(sys.argv[1:])
    sys.exit(main(given.cluster_id, keep_volumes=given.keep_volumes))
