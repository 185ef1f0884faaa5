"""Run a user's command inside the lab."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lab import backend, clients
from lab.cloud import namespace
from lab.cloud.layout import CLOUD, CLOUDS_YAML, KUBECONFIG, VENV_BIN
from lab.errors import LabError


def environment() -> dict[str, str]:
    """Variables with which clients find the cloud, and the cluster once the lab has one."""
    found = {"OS_CLOUD": CLOUD, "OS_CLIENT_CONFIG_FILE": str(CLOUDS_YAML)}
    if KUBECONFIG.exists():
        found["KUBECONFIG"] = str(KUBECONFIG)
    # The lab's `openstack`, `kubectl` and `pulumi`, unless the user has them installed.
    found["PATH"] = clients.path(f"{os.environ.get('PATH', os.defpath)}:{VENV_BIN}")
    return {**found, **backend.environment()}


def run(command: Sequence[str]) -> int:
    """Replace this process by the command, with the same folder and standard streams."""
    if os.geteuid() != 0:
        raise LabError("entering the lab's namespaces needs root: run this as root")
    line = namespace.enter(command, environment=environment())
    os.execvp(line[0], line)
