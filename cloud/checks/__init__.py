"""Compares a configuration with what the cloud has and allows: facts in, faults out."""

from collections.abc import Iterator

from cloud.checks import clusters, immutable, network, quotas, servers, services
from cloud.facts import Facts
from config.errors import Fault
from config.models.cluster import Cluster


def faults(cluster: Cluster, facts: Facts) -> list[Fault]:
    """Everything that this cloud cannot host."""
    found = [
        *immutable.faults(cluster, facts),
        *clusters.faults(cluster, facts),
        *servers.faults(cluster, facts),
        *network.faults(cluster, facts),
        *services.faults(cluster, facts),
        *quotas.faults(cluster, facts),
    ]
    # Roles share flavor, image and zones through the defaults: report each fault once.
    return list(dict.fromkeys(found))


def warnings(cluster: Cluster, facts: Facts) -> Iterator[str]:
    """Warnings for the user, which do not stop the run."""
    yield from servers.warnings(cluster, facts)
    yield from network.warnings(cluster, facts)
    yield from services.warnings(cluster, facts)
