"""Marks that several test files have in common: `pytestmark = marks.INSIDE`."""

from __future__ import annotations

import os

import pytest

# For tests that use OpenStack's SDK, which warns about its own code.
SDK = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]
# For tests that run inside the lab: `python -m lab run -- pytest FILE`.
INSIDE = [pytest.mark.skipif("OS_CLOUD" not in os.environ, reason="for inside `lab run`"), *SDK]
