"""Fixtures of several test files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.tenant import Tenant


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A Keystone project of this test file's own."""
    made = Tenant(tmp_path_factory.mktemp("tenant"))
    yield made
    made.close()
