"""Folders of the lab, all of them below one cache folder outside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
PROJECT = SOURCE.parent

# Expensive to make and good for the next run: survives `lab down`.
_CACHE = os.environ.get("OPENSTACK_KUBERNETES_LAB_CACHE") or "~/.cache/openstack-kubernetes-lab"
# The kernel names the files of loop devices without links.
CACHE = Path(_CACHE).expanduser().resolve()
# Belongs to the running lab: removed by `lab down`.
STATE = CACHE / "state"
LOGS = CACHE / "logs"
# Built or downloaded programs, one folder for each: CACHE/bin/<name>-<version>/...
BIN = CACHE / "bin"
# The lab has its own build cache and module cache: emptying them must not slow down other builds.
GO_CACHE = CACHE / "go"


def ensure(path: Path) -> Path:
    """Create the folder if it is missing, and return it."""
    path.mkdir(parents=True, exist_ok=True)
    return path
