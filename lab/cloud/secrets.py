"""Random passwords of one lab, readable by root only."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field

from commands.private_file import write_private
from lab.cloud.layout import SECRETS
from lab.paths import ensure


def _password() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """One password for each user and service."""

    database: str = field(default_factory=_password)
    messages: str = field(default_factory=_password)
    service: str = field(default_factory=_password)
    admin: str = field(default_factory=_password)
    user: str = field(default_factory=_password)
    metadata: str = field(default_factory=_password)


def load() -> Secrets:
    """Read the running lab's passwords; the first call makes them."""
    if SECRETS.exists():
        return Secrets(**json.loads(SECRETS.read_text()))
    ensure(SECRETS.parent)
    made = Secrets()
    write_private(SECRETS, json.dumps(asdict(made), indent=2))
    return made
