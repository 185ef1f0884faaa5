"""Fixtures that several modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.http_servers import certificate


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A certificate with its key, which the server and the client use and trust."""
    return certificate(tmp_path)
