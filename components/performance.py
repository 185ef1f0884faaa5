"""Makes a program with thousands of resources fast; nothing but its speed depends on it."""

import asyncio
import atexit
import gc

import pulumi


def tune_for_large_stacks() -> None:
    """Tune garbage collection and the event loop; call it before the first resource is made."""
    # What a resource holds lives until the program ends: looking for garbage finds hardly any.
    gc.set_threshold(200_000, 20, 100)
    # Nor at the end, when the system takes it all back anyway.
    atexit.register(gc.freeze)
    pulumi.run(_begin_requests)


async def _begin_requests() -> None:
    """Let every request to the engine begin before the SDK waits for their end.

    It waits for those that have begun one after the other, but for all others at once, again and
    again: that grows with the square of their number.
    """
    await asyncio.sleep(0)
