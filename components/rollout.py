"""Who waits for whom, so that machines come up in parallel but change one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

Memberships = Sequence[tuple[str, pulumi.Resource]]
# One entry of the stack's output `nodes`: name, role, address.
NodeOutput = Mapping[str, pulumi.Input[str]]


class RolloutOrder:
    """The order of changes; `existing` are the names of the machines that are there already."""

    def __init__(self, existing: pulumi.Output[frozenset[str]]) -> None:
        self._existing = existing

    def predecessors(
        self, name: str, before: Memberships, *, at_once: int = 1, first: Memberships = ()
    ) -> pulumi.Output[list[pulumi.Resource]]:
        """The gates that `name` waits for before its server may change.

        A new node waits for none. An existing one waits for the existing node `at_once` places
        ahead of it in `before`, and where there is none, for the existing ones of `first`.
        """

        # The caller's list grows while the program goes on; this is decided later.
        before = tuple(before)

        def gates(names: frozenset[str]) -> list[pulumi.Resource]:
            if name not in names:
                return []
            ahead = [gate for other, gate in before if other in names]
            if len(ahead) >= at_once:
                return [ahead[-at_once]]
            return [gate for other, gate in first if other in names]

        return self._existing.apply(gates)

    def control_planes(self, gates: Memberships) -> pulumi.Output[list[pulumi.Resource]]:
        """The gates of control planes that everything in the cluster waits for.

        While the cluster is made one API server will do: workers and add-ons come up beside the
        other control planes. Afterwards nothing changes before the last one is Ready.
        """
        every = [gate for _, gate in gates]
        return self._existing.apply(lambda names: every if names else every[:1])
