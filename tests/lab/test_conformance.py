"""A suite of Kubernetes' own tests on a cluster whose registry has the lab's own test images."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab import image, settings
from lab.cluster import Cluster, left_in_project
from lab.image import versions
from tests.conformance import programs
from tests.conformance.live import FOLDER
from tests.lab import conformance_images
from tests.lab.registry import serving
from tests.lab.suites import passes

SUITE = os.environ.get("SUITE", "conformance")
NOTE = (
    "On the lab: servers are system containers, and the tests' images are built there of the same"
    " sources and Debian packages, so this is a test and no certificate."
)
# By suite.
LEFT_OUT = {
    "volumes": {
        r"\(default fs\)\(allowExpansion\)\] volume-expand"
        r"|\(default fs\)\] provisioning should provision correct filesystem size"
        r"|\(default fs\) \(late-binding\)\] ephemeral should support expansion": (
            "ext4 grows while it is mounted only with a capability, SYS_RESOURCE, that the lab's"
            " containers do not have; the same tests with XFS run"
        )
    }
}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """A registry in the lab with the tests' images; programs and images are built before."""
    folder = FOLDER / versions.KUBERNETES
    programs.build(versions.KUBERNETES, folder)
    archive = conformance_images.archive(versions.KUBERNETES, folder)
    with serving(archive, folder / "asked") as url:
        yield url


@pytest.fixture(scope="module")
def cluster(registry: str) -> Iterator[Cluster]:
    """Two gateways, three control planes, two workers; they are destroyed at the end."""
    keys = settings.cluster(image=image.ensure())
    mirrors = {"registry.k8s.io": [registry]}
    addons = {**keys["addons"], "snapshots": {"enabled": True}}
    conforming = Cluster("conformance", {**keys, "registryMirrors": mirrors, "addons": addons})
    with conforming.running():
        yield conforming


def test_the_suite_passes(cluster: Cluster) -> None:
    assert passes(cluster, SUITE, NOTE, LEFT_OUT.get(SUITE))


def test_a_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}
