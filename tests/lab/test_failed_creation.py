"""A creation that fails before any API has come up is corrected in place, by other machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab import image, settings
from lab.cluster import UP, Cluster

FLAVOR = "lab.2c4g"


@pytest.fixture(scope="module")
def keys() -> dict[str, Any]:
    """One machine of each kind."""
    return settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)


@pytest.fixture(scope="module")
def cluster(keys: dict[str, Any]) -> Iterator[Cluster]:
    """The cluster, whose API server does not start."""
    made = Cluster("failed", {**keys, "apiServer": {"extraArgs": {"no-such-argument": "1"}}})
    try:
        yield made
    finally:
        made.destroy()


def test_other_machines_take_the_place_of_those_that_never_had_an_api(
    cluster: Cluster, keys: dict[str, Any]
) -> None:
    failed = cluster.stack.pulumi(*UP, check=False, capture=True)
    assert failed.returncode != 0
    assert "unknown flag: --no-such-argument" in failed.stdout + failed.stderr
    before = cluster.servers()
    cluster.up(
        apiServer={},
        controlPlane={**keys["controlPlane"], "flavor": FLAVOR},
        worker={**keys["worker"], "flavor": FLAVOR},
    )
    assert cluster.nodes() == {"failed-control-plane-0": True, "failed-worker-0": True}
    after = cluster.servers()
    assert [name for name in before if before[name] == after[name]] == ["failed-gateway-0"]
    assert cluster.up() == {}
