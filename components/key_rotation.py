"""The part of one update in the rotation of the SSH key, or of the host keys.

Machines that leave are drained at the very end of an update by commands of the last one, which know
the keys of then: nothing retires those before the update after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, kw_only=True)
class KeyRotation:
    """Generations of a key: the first one is 1."""

    in_use: Sequence[int]
    """Those that commands of the last update need, next to the newest one."""
    retired: Sequence[int]
    """Those that nothing accepts or shows after this update."""
    shown: int
    """The one that the stack shows, and that the next update takes for the last one's."""
    leaving: AbstractSet[str] = frozenset()
    """The machines that the older ones are kept for."""

    def announce(self, what: str) -> None:
        """Say what is left for another update."""
        if self.leaving:
            pulumi.log.warn(
                f"{what}: the older generation still counts, because it is needed until "
                f"{', '.join(sorted(self.leaving))} has left, at the end. Run pulumi up once more, "
                "with the same configuration"
            )

    def trigger(self, newest: str) -> str:
        """The trigger of the command that retires the others: not yet, or once for each newest."""
        return newest if self.retired else ""

    @staticmethod
    def after(last: int | None, newest: int, leaving: AbstractSet[str]) -> KeyRotation:
        """Decide by the generation of the last successful update; None if it has none of them."""
        if last == newest:
            return KeyRotation(in_use=(), retired=range(1, newest), shown=newest)
        in_use = range(last or 1, newest)
        if last is not None and leaving:
            return KeyRotation(in_use=in_use, retired=(), shown=last, leaving=leaving)
        return KeyRotation(in_use=in_use, retired=range(1, newest), shown=newest)
