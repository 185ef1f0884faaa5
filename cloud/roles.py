"""The servers of a cluster, role by role."""

from collections.abc import Iterator
from dataclasses import dataclass

from config.models.cluster import Cluster
from config.models.machines import RoleSettings, ServerGroupPolicy, Servers, Volume


@dataclass(frozen=True, kw_only=True)
class Role:
    """Servers that are made alike, and the keys that describe them."""

    path: str
    """The key of the role's settings: `gateway`, `workerPools[0]`."""
    count_key: str
    flavor_key: str
    """The key that the flavor comes from: the role's own, or the one for all roles."""
    image_key: str
    group: str
    """The part of the servers' names after the cluster's: `control-plane`."""
    count: int
    servers: Servers
    server_group_policy: ServerGroupPolicy
    etcd_volume: Volume | None
    """A volume in addition to that of the boot disk."""

    def names(self, cluster: Cluster) -> list[str]:
        """The servers' names."""
        return [cluster.machine_name(self.group, index) for index in range(self.count)]


def roles(cluster: Cluster) -> Iterator[Role]:
    """Every role that has servers."""
    yield Role(
        path="gateway",
        count_key="gatewayCount",
        **_keys("gateway", cluster.gateway),
        group="gateway",
        count=cluster.gateway_count,
        servers=cluster.gateway_servers,
        server_group_policy=cluster.gateway.server_group_policy,
        etcd_volume=None,
    )
    yield Role(
        path="controlPlane",
        count_key="controlPlaneCount",
        **_keys("controlPlane", cluster.control_plane),
        group="control-plane",
        count=cluster.control_plane_count,
        servers=cluster.control_plane_servers,
        server_group_policy=cluster.control_plane.server_group_policy,
        etcd_volume=cluster.control_plane.etcd_volume,
    )
    # The default pool has keys of its own.
    places = [("worker", "workerCount", cluster.worker)] + [
        (key, f"{key}.count", pool) for key, pool in cluster.keyed_pools.items()
    ]
    for (path, count_key, settings), pool in zip(places, cluster.pools, strict=True):
        if pool.count:
            yield Role(
                path=path,
                count_key=count_key,
                **_keys(path, settings),
                group=pool.name,
                count=pool.count,
                servers=pool.servers,
                server_group_policy=pool.server_group_policy,
                etcd_volume=None,
            )


def _keys(path: str, settings: RoleSettings) -> dict[str, str]:
    return {
        "flavor_key": "flavor" if settings.flavor is None else f"{path}.flavor",
        "image_key": "image" if settings.image is None else f"{path}.image",
    }
