"""Checks at preview that the cloud can host the configuration; changes nothing."""

import pulumi

from cloud.checks import clusters, faults, warnings
from cloud.login import login
from cloud.query import query
from config.errors import ConfigError
from config.models.cluster import Cluster


def check(cluster: Cluster) -> frozenset[str]:
    """Compare the configuration with what the cloud has and allows; warn of broken servers.

    The credentials are those of the OpenStack provider. What the cluster has already counts as
    its own: it is recognized by its names, and a floating IP by the port that it points at.

    Returns:
        The IDs of all clusters of this name in the project; those of other stacks have other IDs.

    Raises:
        ConfigError: with every fault; each names the key, its value, and what to set instead.
    """
    facts = query(login(), cluster, warn=pulumi.log.warn)
    for warning in warnings(cluster, facts):
        pulumi.log.warn(warning)
    found = faults(cluster, facts)
    if found:
        about = "this cloud cannot host the configuration (`cloudChecks: false` skips the checks)"
        raise ConfigError(found, about)
    return clusters.of_this_name(cluster, facts)
