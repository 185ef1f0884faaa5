"""Fixtures that several modules share."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from components import left_kubeconfigs
from tests.unit.engine import Run, run
from tests.unit.fleet import Fleet
from tests.unit.http_servers import certificate


@pytest.fixture(scope="session", autouse=True)
def left_kubeconfigs_stay() -> Iterator[None]:
    """Keep the end of the tests from looking for the kubeconfigs of clusters that never were."""
    yield
    atexit.unregister(left_kubeconfigs.remove)


@pytest.fixture(scope="session", autouse=True)
def no_proxies() -> Iterator[None]:
    """Keep proxies of the user's environment away: the tests' servers are on this machine."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            environment.delenv(name)
        yield


@pytest.fixture(scope="session")
def fresh() -> Run:
    """The first update of a default cluster."""
    return run()


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A certificate with its key, which the server and the client use and trust."""
    return certificate(tmp_path)


@pytest.fixture
def fleet(tmp_path: Path, pem: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """A fleet without stacks, whose programs come first in the path."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.chdir(folder)
    with ExitStack() as servers:
        yield Fleet(folder, pem, servers)
