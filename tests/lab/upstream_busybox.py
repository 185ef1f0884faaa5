"""busybox as its authors release it, from the archive that Debian's package is made of.

Debian's own differs where conformance tests look: its shell loses environment variables with names
like `data-1`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab.console import step
from lab.errors import LabError
from lab.image import base
from lab.image.oci import Layer, LayerWriter
from lab.paths import CACHE, ensure

# `tc` needs a header that Linux has no longer.
BUILD = """
set -eu
apt="apt-get -q -y --no-install-recommends"
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/source.list
$apt update
$apt install bzip2 gcc libc6-dev make
mkdir /build
cd /build
$apt source --download-only busybox
tar -xf busybox_*.orig.tar.* --strip-components=1
make -s defconfig
sed -i 's/^# CONFIG_STATIC is not set/CONFIG_STATIC=y/' .config
sed -i 's/^CONFIG_TC=y/# CONFIG_TC is not set/' .config
yes '' | make -s oldconfig >/dev/null
make -s -j "$(nproc)" busybox
"""


def layer(folder: Path) -> Layer:
    """The program, with a link for each of its commands; both are kept in this folder."""
    program = folder / "bin" / "busybox"
    if not program.exists():
        with step("build busybox"):
            _build(program)
    writer = LayerWriter(folder / "layers")
    writer.add("bin/busybox", program, 0o755)
    listing = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    for command in listing.stdout.split():
        if command != "busybox":
            writer.link(f"bin/{command}", "busybox")
    return writer.close()


def _build(target: Path) -> None:
    scratch = CACHE / "images" / ".busybox"
    shutil.rmtree(scratch, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", base.rootfs(), scratch], check=True)
    try:
        result = base.run_inside(scratch, ["sh", "-c", BUILD])
        if result.returncode != 0:
            tail = "\n".join(result.stdout.decode(errors="replace").splitlines()[-15:])
            raise LabError(f"busybox could not be built:\n{tail}")
        partial = ensure(target.parent) / ".busybox.partial"
        shutil.copy(scratch / "build" / "busybox", partial)
        partial.rename(target)
    finally:
        shutil.rmtree(scratch)
