"""The commands of the README on a bare Debian 12: what they install is enough for `make test`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.image import base
from lab.paths import CACHE, PROJECT, ensure

SUITE = "bookworm"
APT = "apt-get -q -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="root only: it changes its root folder"),
    pytest.mark.skipif(shutil.which("debootstrap") is None, reason="debootstrap is not installed"),
]


def bare_debian() -> Path:
    """The smallest Debian 12 that has apt; made on the first call, then cached."""
    target = ensure(CACHE / "image") / f"bare-{SUITE}"
    if not target.is_dir():
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        options = ["--variant=minbase", "--include=ca-certificates", SUITE, str(partial)]
        subprocess.run(["debootstrap", *options, *base._mirrors()[:1]], check=True)
        partial.rename(target)
    return target


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root folder of a bare Debian 12 with a fresh clone of this checkout in /checkout."""
    root = tmp_path_factory.mktemp("bare") / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", bare_debian(), root], check=True)
    # The machine's own way to its registries: apt's settings and certificates that it trusts.
    (root / "etc/apt/apt.conf.d/00machine").write_text(base._apt_settings())
    bundle = "etc/ssl/certs/ca-certificates.crt"
    shutil.copyfile(Path("/") / bundle, root / bundle)
    clone = ("git", "clone", "--quiet", "--no-hardlinks", PROJECT, root / "checkout")
    subprocess.run(clone, check=True)
    yield root
    shutil.rmtree(root)


def run(machine: Path, command: str) -> str:
    """Output of a shell command in /checkout of the machine."""
    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith(("_proxy", "ssl_cert_file"))
    }
    done = base.run_inside(machine, ["sh", "-ec", f"cd /checkout; {command}"], settings)
    said = done.stdout.decode(errors="replace")
    print(said)
    assert done.returncode == 0, f"`{command}` failed:\n{said[-5000:]}"
    return said


def install_command() -> str:
    """The line of the README that installs packages."""
    [line] = re.findall(
        r"^apt-get install -y ([\w. -]+)$", (PROJECT / "README.md").read_text(), re.MULTILINE
    )
    return f"{APT} update && {APT} install --no-install-recommends {line}"


def test_the_packages_of_the_readme_are_enough_for_make_test(machine: Path) -> None:
    run(machine, install_command())
    said = run(machine, "make test")
    assert re.search(r"^\d+ passed", said, re.MULTILINE)
    # Each skipped test says what it misses.
    print(*re.findall(r"^SKIPPED .*$", said, re.MULTILINE), sep="\n")


def test_the_lab_answers_on_a_bare_machine(machine: Path) -> None:
    said = run(machine, "make lab-status || true")
    assert "the cloud is down" in said
