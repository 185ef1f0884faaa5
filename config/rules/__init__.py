"""Rules over several keys of the configuration: pure functions from a cluster to its faults."""

from collections.abc import Iterator

from config.errors import Fault
from config.models.cluster import Cluster

# Importing a module registers its rules.
from config.rules import addons, kubelet, kubernetes, machines, networks  # noqa: F401
from config.rules.rule import RULES


def cross_field_faults(cluster: Cluster, unusable: frozenset[str]) -> Iterator[Fault]:
    """The faults of every rule, except those that need an unusable key."""
    for rule in RULES:
        if not rule.keys & unusable:
            yield from rule.check(cluster)


def warnings(cluster: Cluster) -> Iterator[str]:
    """Settings that are allowed but probably not meant."""
    for module in (kubernetes, machines, networks):
        yield from module.warnings(cluster)
