"""Rules over several keys of the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settings.faults import Fault

if TYPE_CHECKING:
    from config import Cluster


def cross_field_faults(cluster: Cluster, bad: frozenset[str]) -> Iterable[Fault]:
    """Check every rule whose keys are usable."""
    return []
