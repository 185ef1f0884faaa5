"""The two commands of the README on a bare Debian 12: `make test` and `make lab-up`.

`make lab-up` uses this machine's Go and the lab's cache, without OpenStack's programs. An empty one
shows what a new user sees: `OPENSTACK_KUBERNETES_LAB_CACHE=FOLDER .venv/bin/pytest
tests/lab/test_bare_machine.py -k comes_up`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab.cloud import namespace
from lab.cloud.layout import INSTALL
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
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {socket.gethostname()}\n")
    mirrors = base._mirrors()
    sources = [f"deb {mirrors[0]} {suite} main\n" for suite in (SUITE, f"{SUITE}-updates")]
    sources += [f"deb {mirror} {SUITE}-security main\n" for mirror in mirrors[1:]]
    (root / "etc/apt/sources.list").write_text("".join(sources))
    clone = ("git", "clone", "--quiet", "--no-hardlinks", PROJECT, root / "checkout")
    subprocess.run(clone, check=True)
    yield root
    shutil.rmtree(root)


# The root folder becomes a mount, because the lab's containers change roots as well.
ENTER = """
mount --bind "$0" "$0"
cd "$0"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
for folder in $SHARED; do
  mkdir -p "$0$folder"
  mount --bind "$folder" "$0$folder"
done
for folder in $OWN; do
  mkdir -p "$0/own$folder" "$0$folder"
  mount --bind "$0/own$folder" "$0$folder"
done
pivot_root . .
umount --lazy .
cd /checkout
"""


def run(
    machine: Path,
    command: str,
    *,
    shared: Sequence[Path] = (),
    own: Sequence[Path] = (),
    **settings: str,
) -> str:
    """Output of a shell command in /checkout of the machine.

    It has this machine's folders `shared`, and in place of those in `own` its own ones.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith(("_proxy", "ssl_cert_file"))
    }
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER + command, machine],
        env={
            **inherited,
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive",
            "SHARED": " ".join(map(str, shared)),
            "OWN": " ".join(map(str, own)),
            **settings,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
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


def test_the_lab_comes_up(machine: Path) -> None:
    def go(name: str) -> str:
        asked = subprocess.run(["go", "env", name], check=True, capture_output=True, text=True)
        return asked.stdout.strip()

    assert not namespace.running(), "take the lab down first"
    root = Path(go("GOROOT"))
    run(machine, install_command())
    said = run(
        machine,
        f"export PATH={root}/bin:$PATH; trap 'make lab-down' EXIT; trap 'exit 130' INT TERM;"
        " make lab-up",
        # Only one lab at a time, wherever it is started.
        shared=(ensure(CACHE), root, Path("/run/lock")),
        # One of its programs is compiled with libraries of the machine that it was compiled on.
        own=(INSTALL,),
        OPENSTACK_KUBERNETES_LAB_CACHE=str(CACHE),
        **{name: go(name) for name in ("GOPROXY", "GOSUMDB")},
    )
    assert len(re.findall(r"^\S+ +Ready +", said, re.MULTILINE)) == 3 + 2
