"""One namespace for all tests, deleted at the end."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.smoke.live import Live


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """The cluster that KUBECONFIG names."""
    if "KUBECONFIG" not in os.environ:
        pytest.exit("set KUBECONFIG to the kubeconfig of the cluster to check", returncode=2)
    cluster = Live(f"smoke-{uuid.uuid4().hex[:6]}")
    try:
        cluster.kubectl("create", "namespace", cluster.namespace)
    except AssertionError as error:
        pytest.exit(str(error), returncode=2)
    try:
        yield cluster
    finally:
        cluster.kubectl("delete", "namespace", cluster.namespace, "--timeout=300s")
