"""The smallest cluster, end to end: one gateway, one control plane, one worker, then one more.

The files run in the order of their names, for their tests share the cluster: the first ones look at
a new one, some use what earlier ones have made, and the last one destroys it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import image, settings
from lab.cluster import Cluster

ENFORCE = "pod-security.kubernetes.io/enforce"


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """The cluster; it is destroyed at the end, also after a failure."""
    small = Cluster(
        "small", settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    )
    # What an earlier run in the same lab has left.
    changed = ("rotation", "keepVolumes", "cloudCredential", "apiServer", "scheduler", "timeouts")
    small.stack.configure(dict.fromkeys(changed))
    try:
        small.up()
        # The tests' own pods use the network of their nodes.
        small.kubectl(*("label", "namespace", "default"), f"{ENFORCE}=privileged", "--overwrite")
        yield small
    finally:
        small.destroy()
