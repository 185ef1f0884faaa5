"""Suites of tests that others wrote, run from inside the lab on one of its clusters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from lab.cloud import inside, namespace
from lab.cluster import Cluster
from lab.paths import PROJECT


def passes(
    cluster: Cluster, suite: str, note: str, left_out: Mapping[str, str] | None = None
) -> bool:
    """Run a suite, which writes its page; tells whether it has passed."""
    command = [sys.executable, "-m", "tests.conformance", suite, "--note", note]
    if only := os.environ.get("ONLY"):
        command += ["--only", only]
    command += ["--kubeconfig", str(cluster.kubeconfig)]
    for pattern, why in (left_out or {}).items():
        command += ["--leave-out", pattern, why]
    line = namespace.enter(command, environment=inside.environment(), folder=PROJECT)
    return subprocess.run(line, stdin=subprocess.DEVNULL, check=False).returncode == 0
