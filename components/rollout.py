"""Rollout order: machines come up in parallel, but change one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import pulumi

Turns = Mapping[str, pulumi.Resource]
"""Machines by name, each with the resource that is done when its turn is over."""

MachineOutput = Mapping[str, pulumi.Input[str]]
"""One entry of the stack's outputs `gateways` and `nodes`: name, role, address."""


class RolloutOrder:
    """The order of changes; `existing` are the names of the machines that exist already."""

    def __init__(self, existing: pulumi.Output[AbstractSet[str]]) -> None:
        self._existing = existing

    def predecessors(
        self, name: str, before: Turns, *, at_once: int = 1, first: Turns | None = None
    ) -> pulumi.Output[list[pulumi.Resource]]:
        """The resources that `name` waits for before its server may change.

        A new machine waits for none. An existing one waits for the existing machine `at_once`
        places ahead of it in `before`, or, if there is none, for the existing ones of `first`.
        """

        # The caller's mapping grows while the program continues; this is decided later.
        before = dict(before)

        def resources(existing: AbstractSet[str]) -> list[pulumi.Resource]:
            if name not in existing:
                return []
            ahead = [turn for other, turn in before.items() if other in existing]
            if len(ahead) >= at_once:
                return [ahead[-at_once]]
            return [turn for other, turn in (first or {}).items() if other in existing]

        return self._existing.apply(resources)

    def during_creation(self, value: str, later: str) -> pulumi.Output[str]:
        """The value until the first successful update, `later` from then on."""
        return self._existing.apply(lambda names: later if names else value)

    def control_planes(self, turns: Turns) -> pulumi.Output[list[pulumi.Resource]]:
        """The control planes that everything else in the cluster waits for.

        While the cluster is created, one API server is enough: workers and add-ons come up
        alongside the other control planes. Later nothing changes before the last one is Ready.
        """
        every = [*turns.values()]
        return self._existing.apply(lambda names: every if names else every[:1])
