"""Modules of the bench that run inside the lab."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lab.cloud import inside, namespace


def result_of(module: str, *words: str) -> Any:  # noqa: ANN401
    """Run a module inside the lab; returns the JSON that it prints."""
    result = subprocess.run(
        namespace.enter([sys.executable, "-m", module, *words], environment=inside.environment()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)
