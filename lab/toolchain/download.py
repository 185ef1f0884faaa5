"""Download official releases, where they can be reached, with short timeouts and checksums."""

from __future__ import annotations

import functools
import hashlib
import platform
import shutil
import subprocess
import urllib.request
from http.client import HTTPException
from pathlib import Path

from lab.console import step
from lab.errors import LabError

SERVER = "https://get.pulumi.com/releases/sdk"
# Seconds after which a server that has not answered counts as unreachable.
PATIENCE = 5


class UnreachableError(Exception):
    """The release cannot be downloaded from here: build it instead."""


def _sums(version: str) -> str:
    return f"{SERVER}/pulumi-{version}-checksums.txt"


@functools.cache
def reachable(version: str) -> bool:
    """True if releases can be downloaded from here, by asking for a file of this one."""
    request = urllib.request.Request(_sums(version), method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True


def system() -> str:
    """This machine's system and processor, in the words of the release archives."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            body: bytes = response.read()
    except (OSError, ValueError, HTTPException) as error:
        raise UnreachableError(f"{url}: {error}") from error
    return body


def cli(version: str, target: Path) -> None:
    """Download the CLI's release and put its programs into the folder `target`."""
    archive = f"pulumi-v{version}-{system()}.tar.gz"
    sums = _get(_sums(version)).decode()
    expected = next((line.split()[0] for line in sums.splitlines() if line.endswith(archive)), None)
    if expected is None:
        raise UnreachableError(f"the release {version} has no {archive}")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with step(f"download {archive}"):
        content = _get(f"{SERVER}/{archive}")
        if hashlib.sha256(content).hexdigest() != expected:
            raise LabError(
                f"{archive} from {SERVER} does not have the published checksum: run again, or build"
                " it with `python -m lab toolchain --build`"
            )
        file = partial / archive
        file.write_bytes(content)
        # Debian 12's Python has no filters for tarfile.
        subprocess.run(["tar", "-xf", file, "-C", partial], check=True)
        file.unlink()
    (partial / "pulumi").rename(target)
    shutil.rmtree(partial)
