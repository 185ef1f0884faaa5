"""An update that many tests look at."""

from __future__ import annotations

import pulumi
import pytest

from tests.unit.engine import MINIMAL, NODES, Run, run
from tests.unit.program.settings import (
    BACKUP_SECRET_KEY,
    BUCKET,
    CERTIFICATE,
    PROXY_PASSWORD,
)


@pytest.fixture(scope="session")
def updated() -> Run:
    """An update of an existing cluster, with one more worker."""
    return run({"workerCount": 3}, existing=NODES)


@pytest.fixture(scope="session")
def everything() -> Run:
    """The first update of a cluster with whatever adds to what its machines are sent."""
    return run(
        {
            "timeServers": ["ntp.example.org"],
            "packageMirrors": {
                "kubernetes": "https://a.example",
                "containerd": "https://b.example",
            },
            "httpProxy": {"http": f"http://user:{PROXY_PASSWORD}@proxy.example.org:3128"},
            "oidc": {
                "issuerUrl": "https://login.example.org",
                "clientId": "kubernetes",
                "caCertificate": CERTIFICATE,
            },
            "addons": {
                **MINIMAL["addons"],
                "imageRegistry": "r.example/m",
                "kured": {"enabled": True},
                "objectStore": {"enabled": True},
            },
            "backup": {
                "bucket": {
                    **BUCKET,
                    "caCertificate": CERTIFICATE,
                },
                "restore": "demo-12345678/x.db.gz",
            },
            "backupSecretKey": BACKUP_SECRET_KEY,
        },
        secret=["backupSecretKey"],
    )


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings of the runs of a test."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    return said
