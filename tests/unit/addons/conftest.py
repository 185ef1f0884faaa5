"""The add-ons of a default cluster, and every add-on."""

from __future__ import annotations

import pytest

from tests.unit.addons.install import OPTIONAL, AddonsRun, install


@pytest.fixture(scope="module")
def default() -> AddonsRun:
    return install()


@pytest.fixture(scope="module")
def everything() -> AddonsRun:
    return install({name: {"enabled": True} for name in OPTIONAL})
