"""Marks that several of the lab's test files have: `pytestmark = marks.INSIDE`."""

from __future__ import annotations

import os

import pytest

# Who uses OpenStack's SDK: it warns of its own insides.
SDK = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]
# Who runs inside the lab: `python -m lab run -- pytest FILE`.
INSIDE = [pytest.mark.skipif("OS_CLOUD" not in os.environ, reason="for inside `lab run`"), *SDK]
