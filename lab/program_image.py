"""An image of the program as the Containerfile makes it, where no registry can be reached.

It has the lab's Pulumi and plugins, Debian's Python, and the lab's charts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lab.console import step
from lab.errors import LabError
from lab.image import debian, oci
from lab.image.charts import CHARTS, FETCHED
from lab.image.oci import Image, Layer, LayerWriter
from lab.paths import CACHE, PROJECT
from lab.toolchain import cli, plugins, versions
from versions import PROGRAM

# As docs/fleet.md writes it.
NAME = f"registry.example.org/openstack-kubernetes:{PROGRAM}"
# Where its charts are, for `addons.chartDirectory`.
CHART_FOLDER = "/charts"
ARCHIVE = CACHE / "images" / "program.tar"

_LAYERS = CACHE / "images" / ".program"
# Of the lab's base system, and the oldest C libraries that its wheels are built for.
_PYTHON = "3.13"
_PLATFORMS = ("manylinux_2_17", "manylinux2014", "manylinux_2_28", "manylinux_2_34")
_PROGRAM, _HOME, _CLI = "program", "home/pulumi", "opt/pulumi/bin"
_PACKAGES = f"{_PROGRAM}/.venv/lib/python{_PYTHON}/site-packages"


def build() -> Path:
    """Write the archive, for `ctr images import`; returns its path."""
    packages = _packages()
    with step("write an image of the program"):
        try:
            return oci.write_archive([_image(packages)], ARCHIVE)
        finally:
            shutil.rmtree(_LAYERS, ignore_errors=True)


def _image(packages: Path) -> Image:
    return Image(
        name=NAME,
        layers=[
            debian.layers()[0],
            debian.python(),
            _pulumi(),
            _virtual_environment(packages),
            _program(),
        ],
        command=["pulumi"],
        environment={
            # The lab's language host runs the first `python`.
            "PATH": f"/{_PROGRAM}/.venv/bin:/usr/local/bin:/usr/bin:/bin:/{_CLI}",
            "HOME": f"/{_HOME}",
            "USER": "pulumi",
            "PYTHONPYCACHEPREFIX": "/tmp/pycache",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        },
        user="1000:1000",
        working_directory=f"/{_PROGRAM}",
    )


def _packages() -> Path:
    """The locked Python packages for the image's Python, in a folder of the cache."""
    key = hashlib.sha256(versions.REQUIREMENTS.read_bytes() + Path(__file__).read_bytes())
    target = CACHE / f"packages-{key.hexdigest()[:12]}"
    if target.exists():
        return target
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    machine = os.uname().machine
    with step("install the program's packages for the image"):
        _pip(
            *("--target", str(partial), "--no-deps", "--require-hashes", "--only-binary=:all:"),
            *("--python-version", _PYTHON, "--implementation", "cp"),
            *(word for each in _PLATFORMS for word in ("--platform", f"{each}_{machine}")),
            *("--requirement", str(versions.REQUIREMENTS)),
        )
        # The language host asks it for the packages.
        _pip("--target", str(partial), "pip")
    for old in CACHE.glob("packages-*"):
        if old != partial:
            shutil.rmtree(old)
    return partial.rename(target)


def _pip(*words: str) -> None:
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    result = subprocess.run([sys.executable, *install, *words], capture_output=True, text=True)
    if result.returncode != 0:
        raise LabError(f"pip failed:\n{result.stderr[-500:]}")


def _pulumi() -> Layer:
    """Pulumi and its plugins, in the home of a user who may write there."""
    folder = cli.folder()
    if folder is None:
        raise LabError("pulumi is not installed yet: run `.venv/bin/python -m lab toolchain`")
    writer = LayerWriter(_LAYERS)
    for program in sorted(folder.glob("pulumi*")):
        # Also where it is a link.
        writer.add(f"{_CLI}/{program.name}", program.resolve(), mode=0o755)
    for place in (_HOME, f"{_HOME}/.pulumi", f"{_HOME}/.pulumi/plugins"):
        writer.folder(place, 0o777)
    for name, version in versions.plugins().items():
        plugin = plugins.folder(name, version)
        inside = f"{_HOME}/.pulumi/plugins/{plugin.name}"
        writer.folder(inside, 0o777)
        writer.tree(inside, plugin)
    writer.write(f"{_HOME}/.pulumi/logs", "", mode=0o666)
    return writer.close()


def _virtual_environment(packages: Path) -> Layer:
    """The packages, in an environment of the image's Python where the checkout has its own."""
    writer = LayerWriter(_LAYERS)
    writer.folder(_PROGRAM, 0o777)
    writer.write(f"{_PROGRAM}/.venv/pyvenv.cfg", f"home = /usr/bin\nversion = {_PYTHON}\n")
    for name in ("python", "python3"):
        writer.link(f"{_PROGRAM}/.venv/bin/{name}", "/usr/bin/python3")
    writer.tree(_PACKAGES, packages)
    return writer.close()


def _program() -> Layer:
    """The files that the Containerfile copies, and the charts, which no cluster can download."""
    writer = LayerWriter(_LAYERS)
    writer.folder(_PROGRAM, 0o777)
    for path in _copied():
        mode = 0o755 if os.access(path, os.X_OK) else 0o644
        writer.add(f"{_PROGRAM}/{path.relative_to(PROJECT)}", path, mode)
    writer.add("usr/local/bin/pulumi", PROJECT / "commands/workspace.sh", mode=0o755)
    for charts in (CHARTS, FETCHED):
        for chart in sorted(charts.glob("*/Chart.yaml")):
            writer.tree(f"{CHART_FOLDER}/{chart.parent.name}", chart.parent)
    return writer.close()


def _copied() -> Iterator[Path]:
    for line in (PROJECT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            top = PROJECT / line[1:]
            inside = sorted(top.rglob("*")) if top.is_dir() else [top]
            yield from (p for p in inside if p.is_file() and "__pycache__" not in p.parts)
