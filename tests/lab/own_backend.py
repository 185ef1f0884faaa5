"""Pulumi's environment in tests whose stacks are in a backend of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lab import toolchain
from lab.cloud import inside


def environment(more: Mapping[str, str], *, cloud: bool = False) -> dict[str, str]:
    """Environment of the CLI, and on request of the cloud's clients; `more` names the backend."""
    parts = [toolchain.environment(), *([inside.environment()] if cloud else [])]
    found = dict(os.environ)
    for part in reversed(parts):
        found |= part
    # Those of the lab's own stacks.
    for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE"):
        found.pop(name, None)
    # The one has Pulumi, the other OpenStack's client and kubectl.
    found["PATH"] = os.pathsep.join(part["PATH"] for part in parts)
    return {**found, "PULUMI_CONFIG_PASSPHRASE": "of no use to anyone", **more}
