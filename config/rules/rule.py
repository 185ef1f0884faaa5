"""A rule, which is skipped as long as a key that it reads is unusable, and the list of all."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from config.errors import Fault
from config.models.cluster import Cluster

Check = Callable[[Cluster], Iterable[Fault]]


@dataclass(frozen=True)
class Rule:
    """A function from a cluster to its faults, and the keys that it reads."""

    keys: frozenset[str]
    check: Check


RULES: list[Rule] = []


def rule(*keys: str) -> Callable[[Check], Check]:
    """Make a function a rule over these keys."""

    def register(check: Check) -> Check:
        RULES.append(Rule(frozenset(keys), check))
        return check

    return register
