"""A registry in the lab that serves the images of an archive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cloud import layout, namespace
from lab.cluster import run
from lab.paths import PROJECT
from lab.until import until

PORT = 5081
URL = f"http://{layout.API}:{PORT}"


@contextmanager
def serving(archive: Path, log: Path) -> Iterator[str]:
    """Serve an archive within the block; gives the URL, and writes each request to the log."""
    words = ["--address", layout.API, "--port", str(PORT), str(archive)]
    command = [sys.executable, "-m", "tests.lab.mirror", *words]
    line = namespace.enter(command, folder=PROJECT)
    with (
        log.open("w") as said,
        subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=said) as server,
    ):
        try:
            until(lambda: run("curl", "-sf", f"{URL}/v2/", check=False) == "{}", "registry", 60)
            yield URL
        finally:
            server.terminate()
