"""An update that many tests look at."""

from __future__ import annotations

import pulumi
import pytest

from tests.unit.engine import NODES, Run, run


@pytest.fixture(scope="session")
def updated() -> Run:
    """An update of an existing cluster, with one more worker."""
    return run({"workerCount": 3}, existing=NODES)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings of the runs of a test."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    return said
