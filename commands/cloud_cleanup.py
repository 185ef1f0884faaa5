"""Delete what the cluster's own controllers made in the cloud: load balancers, volumes and so on.

`pulumi destroy` runs it when the servers are gone and the network is not, so it needs no
Kubernetes API. By hand: `python -m commands.cloud_cleanup CLUSTER`, with a login in the
environment (`OS_CLOUD`, or `OS_AUTH_URL` and so on), as the OpenStack provider takes it.
"""

from __future__ import annotations

import contextlib
import sys

from openstack.connection import Connection
from openstack.exceptions import ConflictException
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from cloud.login import login
from cloud.query import connect
from config.errors import ConfigError

# Cinder CSI marks the volumes and snapshots that it makes with the name of their cluster.
CSI_MARK = "cinder.csi.openstack.org/cluster"
# Seconds that the cloud has for deleting what it was told to delete.
PATIENCE = 300


def sweep(cloud: Connection, cluster: str) -> list[str]:
    """Order everything of the cluster deleted; returns what was found, one text for each."""
    return [
        *_load_balancers(cloud, cluster),
        *_floating_ips(cloud, cluster),
        *_security_groups(cloud, cluster),
        *_volumes(cloud, cluster),
    ]


def _load_balancers(cloud: Connection, cluster: str) -> list[str]:
    if not cloud.has_service("load-balancer"):
        return []
    # The cloud controller names them kube_service_<cluster>_<namespace>_<service>.
    prefix = f"kube_service_{cluster}_"
    # An administrator is shown those of all projects, here and below.
    listed = cloud.load_balancer.load_balancers(project_id=cloud.current_project_id)
    ours = [balancer for balancer in listed if balancer.name.startswith(prefix)]
    for balancer in ours:
        # In between Octavia refuses; the next round asks again.
        if balancer.provisioning_status in ("ACTIVE", "ERROR"):
            cloud.load_balancer.delete_load_balancer(balancer, cascade=True)
    return [f"load balancer {balancer.name}" for balancer in ours]


def _floating_ips(cloud: Connection, cluster: str) -> list[str]:
    # The cloud controller's own words: "Floating IP for Kubernetes external service ... ".
    mark = f" from cluster {cluster}"
    listed = cloud.network.ips(project_id=cloud.current_project_id)
    ours = [address for address in listed if (address.description or "").endswith(mark)]
    for address in ours:
        cloud.network.delete_ip(address)
    return [f"floating IP {address.floating_ip_address}" for address in ours]


def _security_groups(cloud: Connection, cluster: str) -> list[str]:
    # One for each Service behind Octavia: "Security Group for ... Service LoadBalancer in ...".
    mark = f" Service LoadBalancer in cluster {cluster}"
    listed = cloud.network.security_groups(project_id=cloud.current_project_id)
    ours = [group for group in listed if (group.description or "").endswith(mark)]
    for group in ours:
        # The ports of nodes have it as well, and may go at this moment.
        with contextlib.suppress(ConflictException):
            cloud.network.delete_security_group(group)
    return [f"security group {group.name}" for group in ours]


def _volumes(cloud: Connection, cluster: str) -> list[str]:
    snapshots = [s for s in cloud.block_storage.snapshots() if _ours(s.metadata, cluster)]
    volumes = [v for v in cloud.block_storage.volumes() if _ours(v.metadata, cluster)]
    for snapshot in snapshots:
        if snapshot.status != "deleting":
            cloud.block_storage.delete_snapshot(snapshot.id)
    # A volume goes after its snapshots; the next round finds it again.
    for volume in [] if snapshots else volumes:
        if volume.status in ("available", "error"):
            cloud.block_storage.delete_volume(volume.id)
    return [f"snapshot {s.name}" for s in snapshots] + [f"volume {v.name}" for v in volumes]


def _ours(metadata: dict[str, str] | None, cluster: str) -> bool:
    return (metadata or {}).get(CSI_MARK) == cluster


def servers(cloud: Connection, cluster: str) -> list[str]:
    """Names of the cluster's servers that are still there."""
    listed = cloud.compute.servers()
    return [each.name for each in listed if (each.metadata or {}).get("cluster") == cluster]


def main(cluster: str) -> int:
    """Sweep until nothing is left.

    1 when something stays, the cloud lets nobody in, or the cluster has servers: it may live.
    """
    try:
        # There is no stack's configuration here: what it says is in the environment.
        cloud = connect(login(lambda _: None))
    except ConfigError as error:
        print(error)
        return 1

    if there := servers(cloud, cluster):
        print(f"{cluster} has servers ({', '.join(there)}): what it made goes when they are gone")
        return 1

    @retry(
        retry=retry_if_result(bool),
        wait=wait_fixed(3),
        stop=stop_after_delay(PATIENCE),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else [],
    )
    def until_empty() -> list[str]:
        found = sweep(cloud, cluster)
        for each in found:
            print(f"deleting {each}")
        return found

    left = until_empty()
    if left:
        print(f"still there after {PATIENCE} s: {', '.join(left)}; delete them, then run again")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
