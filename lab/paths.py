"""Where the lab keeps things. Everything lies under one cache folder outside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
PROJECT = SOURCE.parent

# What is expensive to make and good for the next run: survives `lab down`.
CACHE = Path(
    os.environ.get("OPENSTACK_KUBERNETES_LAB_CACHE")
    or Path.home() / ".cache" / "openstack-kubernetes-lab"
)
# What belongs to the running lab: gone after `lab down`.
STATE = CACHE / "state"
LOGS = CACHE / "logs"
# Built or downloaded programs, one folder a program: CACHE/bin/<name>-<version>/...
BIN = CACHE / "bin"
# Go's build cache and module cache of the lab alone, so that trimming them hurts nobody.
GO_CACHE = CACHE / "go"


def ensure(path: Path) -> Path:
    """Make the folder if it is missing and return it."""
    path.mkdir(parents=True, exist_ok=True)
    return path
