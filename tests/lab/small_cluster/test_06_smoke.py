"""The smoke tests, which look at a cluster that is in use."""

from __future__ import annotations

import sys

from lab.cluster import Cluster, run


def test_the_smoke_tests_pass(cluster: Cluster) -> None:
    checks = run(
        *(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "tests/smoke"),
        KUBECONFIG=str(cluster.kubeconfig),
        SMOKE_IMAGE="docker.io/lab/busybox:1",
    )
    print(checks)
    assert "10 passed" in checks
