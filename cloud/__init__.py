"""Asks the cloud, at preview, whether it can take the configuration; changes nothing."""

import pulumi

from cloud.checks import faults, warnings
from cloud.endpoint import Endpoint, endpoint
from cloud.login import login, login_variables
from cloud.query import fetch
from config.errors import ConfigError
from config.models.cluster import Cluster

__all__ = ["Endpoint", "check", "endpoint", "login_variables"]


def check(cluster: Cluster) -> None:
    """Compare the configuration with what the cloud has and allows; warn of broken servers.

    The credentials are those of the OpenStack provider. What the cluster has already is not
    asked for again: it is known by its names, and a floating IP by the port it belongs to.

    Raises:
        ConfigError: with every fault; each names the key, its value, and what there is instead.
    """
    facts = fetch(login(), cluster, warn=pulumi.log.warn)
    for warning in warnings(cluster, facts):
        pulumi.log.warn(warning)
    found = faults(cluster, facts)
    if found:
        raise ConfigError(found, "the cloud cannot take this (`cloudChecks: false` does not ask)")
