"""Fixtures of several test files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.figures import Figures
from lab.cloud import inside
from lab.cluster import run
from tests.lab.object_store import ObjectStore
from tests.lab.tenant import Tenant

HERE = Path(__file__).parent


def pytest_configure() -> None:
    """Set the seed before pytest-xdist starts its workers, which inherit it."""
    os.environ.setdefault("SEED", str(int(time.time())))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that share a cluster, a file or a folder, on one worker of pytest-xdist."""
    for item in items:
        shares = item.path if item.path.parent == HERE else item.path.parent
        item.add_marker(pytest.mark.xdist_group(shares.stem))


@pytest.fixture(scope="session", autouse=True)
def project(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """With several workers of pytest-xdist, each has its clusters in a project of its own."""
    if worker_id == "master":
        yield
        return
    file = tmp_path_factory.mktemp("project") / "lab.yaml"
    run(sys.executable, "-m", "tests.lab.worker_project", str(file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside, "CLOUDS_YAML", file)
        yield


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A Keystone project of this test file's own."""
    made = Tenant(tmp_path_factory.mktemp("tenant"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def store(worker_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An object store outside of every cluster."""
    number = 0 if worker_id == "master" else int(worker_id.removeprefix("gw"))
    with ObjectStore(tmp_path_factory.mktemp("store"), port=7480 + number) as started:
        yield started


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    """The figures that the tests of a file measure: printed at the end; a missed target fails."""
    measured = Figures()
    yield measured
    measured.show()
    assert measured.missed == []
