"""Random times for tests that kill an update; SEED in the environment repeats those of a run."""

from __future__ import annotations

import math
import os
import random
import time

import pytest

SEED = int(os.environ.get("SEED") or time.time())
# The seed becomes part of the test's name, which pytest prints and which every failure shows.
SEEDED = pytest.mark.parametrize("seed", [SEED], ids="SEED={}".format)


def moment(dice: random.Random, shortest: float, longest: float) -> float:
    """Draw seconds after which to kill, log-uniform: an update does most things early on."""
    return round(math.exp(dice.uniform(math.log(shortest), math.log(longest))), 1)


def draw(seed: int, count: int, shortest: float, longest: float) -> list[float]:
    """Draw so many moments."""
    dice = random.Random(seed)
    times = [moment(dice, shortest, longest) for _ in range(count)]
    print(f"SEED={seed} kills after {times} s")
    return times
