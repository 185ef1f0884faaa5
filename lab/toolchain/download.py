"""Official releases, where they can be reached: short time-outs, checked sums."""

from __future__ import annotations

import functools
import hashlib
import platform
import shutil
import tarfile
import urllib.request
from pathlib import Path

from lab.console import step
from lab.errors import LabError

SERVER = "https://get.pulumi.com/releases/sdk"
# A server that does not answer within this many seconds counts as one that cannot be reached.
PATIENCE = 5


class UnreachableError(Exception):
    """The release is not to be had from here: build it."""


def _sums(version: str) -> str:
    return f"{SERVER}/pulumi-{version}-checksums.txt"


@functools.cache
def reachable(version: str) -> bool:
    """Tell whether releases can be downloaded from here, by asking for a file of this one."""
    request = urllib.request.Request(_sums(version), method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True


def system() -> str:
    """This machine as the release archives name it."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            body: bytes = response.read()
    except (OSError, ValueError) as error:
        raise UnreachableError(f"{url}: {error}") from error
    return body


def cli(version: str, target: Path) -> None:
    """Put the programs of the CLI's release into the folder `target`."""
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
            raise LabError(f"{archive} does not have the published checksum: run again")
        file = partial / archive
        file.write_bytes(content)
        with tarfile.open(file) as tar:
            tar.extractall(partial, filter="data")
        file.unlink()
    (partial / "pulumi").rename(target)
    shutil.rmtree(partial)
