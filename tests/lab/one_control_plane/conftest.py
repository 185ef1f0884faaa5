"""A cluster of one control plane, which the tests of this folder have together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import image, settings
from lab.cluster import Cluster, left_in_project


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """One gateway, one control plane, one worker. Each file leaves them Ready, and with no changes.

    They are destroyed at the end, also after a failure, and leave nothing in the project.
    """
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    made = Cluster("one", keys)
    # What an earlier run in the same lab has left.
    made.stack.configure({"etcd": None, "workerPools": None})
    with made.running():
        yield made
    assert left_in_project() == {}
