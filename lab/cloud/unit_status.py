"""Status of one unit: the supervisor writes it, `lab status` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.cloud.layout import CLOUD_LOGS


@dataclass(kw_only=True)
class UnitStatus:
    """One unit in the supervisor's status file."""

    name: str
    job: bool
    state: str = "waiting"
    pid: int = 0
    since: float = 0.0
    restarts: int = 0
    reason: str = ""

    @property
    def ready(self) -> bool:
        """True if the service is up, or the job done."""
        return self.state in ("up", "done")

    @property
    def log(self) -> Path:
        """File with its output."""
        return CLOUD_LOGS / f"{self.name}.log"
