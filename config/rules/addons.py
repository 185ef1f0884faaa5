"""Rules for add-ons and backups: where they run, how requests reach them, where data goes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from config.errors import Fault
from config.models.cluster import Cluster
from config.rules.rule import rule

# Where each ingress controller's chart has the Service.
_SERVICES = {"traefik": ("service", "spec"), "nginx": ("controller", "service")}
# What runs on workers.
_ON_WORKERS = ("monitoring", "ingress", "headlamp", "logging", "object_store", "operator")
_WITH_VOLUMES = ("monitoring", "logging", "object_store")


@rule("backup")
def _a_restore_needs_a_bucket(cluster: Cluster) -> Iterator[Fault]:
    if cluster.backup.restore is not None and cluster.backup.bucket is None:
        yield Fault(
            "backup.restore", cluster.backup.restore, "needs a bucket; set backup.bucket too"
        )


@rule("clusterName", "addons")
def _an_object_store_has_no_backups_of_its_own_cluster(cluster: Cluster) -> Iterator[Fault]:
    for index, name in enumerate(cluster.addons.object_store.clusters):
        if name == cluster.cluster_name:
            yield Fault(
                f"addons.objectStore.clusters[{index}]",
                name,
                "is this cluster: its backups would be lost with it; remove the name, and set "
                "backup.bucket to a store elsewhere",
            )


@rule("addons")
def _the_ingress_is_reached_through_control_planes(cluster: Cluster) -> Iterator[Fault]:
    ingress = cluster.addons.ingress
    way = (*_SERVICES[ingress.controller], "externalTrafficPolicy")
    value: object = ingress.values
    for part in way:
        value = value.get(part) if isinstance(value, Mapping) else None
    if value == "Local" and not cluster.addons.octavia:
        yield Fault(
            f"addons.ingress.values.{'.'.join(way)}",
            value,
            "the gateways send requests to control planes, where no ingress pod runs; remove it: "
            "the ingress learns the client's address by the PROXY protocol",
        )


@rule("addons", "workerCount", "worker", "workerPools")
def _add_ons_have_workers(cluster: Cluster) -> Iterator[Fault]:
    if cluster.nodes_for_every_pod:
        return
    problem = "and this cluster has none; set workerCount to 1 or more"
    if any(pool.count or pool.machines for pool in cluster.pools):
        problem = "and taints keep pods out of all of them; add a pool without taints"
    # A chart's values may let its pods onto control planes.
    for key, _ in _without_values(cluster, _ON_WORKERS):
        yield Fault(f"{key}.enabled", True, f"its pods run on workers, {problem}")


@rule("addons")
def _volumes_have_a_storage_class(cluster: Cluster) -> Iterator[Fault]:
    csi = cluster.addons.cinder_csi
    # Without Cinder CSI, something else brings the default class.
    if not csi.enabled or any(each.default for each in csi.storage_classes):
        return
    # A chart's values may name a class, or do without a volume.
    for key, add_on in _without_values(cluster, _WITH_VOLUMES):
        if add_on.storage_class is None:
            yield Fault(
                f"{key}.enabled",
                True,
                "its volume would never be created, because none of addons.cinderCsi.storageClasses"
                f" has default: true; set that, or {key}.storageClass",
            )


def _without_values(cluster: Cluster, attributes: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Key and model of those that are enabled and run with the program's own chart values."""
    for attribute in attributes:
        add_on = getattr(cluster.addons, attribute)
        if add_on.enabled and not getattr(add_on, "values", None):
            yield f"addons.{to_camel(attribute)}", add_on
