"""The Ready nodes of a cluster, asked again and again while something changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lab.cluster import Cluster
from tests.lab.traffic import repeated


@contextmanager
def ready_nodes(cluster: Cluster) -> Iterator[list[set[str]]]:
    """Collect the names of the Ready nodes, asked again and again."""
    seen: list[set[str]] = []

    def ask() -> None:
        # The API server that answers may be the one that leaves.
        with suppress(AssertionError):
            seen.append({name for name, ready in cluster.nodes().items() if ready})

    with repeated(ask, 0.5):
        yield seen


def fewest(seen: list[set[str]], *kinds: str) -> int:
    """The smallest number of Ready nodes of these pools, or of control planes, that was seen."""
    assert len(seen) > 20
    return min(sum(any(f"-{kind}-" in name for kind in kinds) for name in each) for each in seen)
