"""The add-ons of a default cluster, and every add-on."""

from __future__ import annotations

import pytest

from tests.unit.addons.install import EVERYTHING, AddonsRun, install


@pytest.fixture(scope="module")
def default() -> AddonsRun:
    return install()


@pytest.fixture(scope="module")
def everything() -> AddonsRun:
    return install(EVERYTHING)
