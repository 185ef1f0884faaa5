"""What several of the lab's test files need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.tenant import Tenant


@pytest.fixture(scope="module")
def tenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A Keystone project with nothing else in it."""
    made = Tenant(tmp_path_factory.mktemp("tenant"))
    yield made
    made.close()
