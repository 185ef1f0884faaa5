"""Layers of Debian packages for the images whose programs need a userland."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from lab.console import step
from lab.errors import LabError
from lab.image import base
from lab.image.oci import Layer, LayerWriter
from lab.paths import CACHE, ensure

LAYERS = CACHE / "images" / "layers"
# What kube-proxy, Cilium and the Cinder plugin call, and a shell for whoever looks inside.
TOOLS = (
    "base-files", "base-passwd", "bash", "busybox-static", "ca-certificates", "conntrack",
    "coreutils", "dash", "diffutils", "e2fsprogs", "findutils", "grep", "hostname", "ipset",
    "iproute2", "iptables", "kmod", "mawk", "mount", "netbase", "nftables", "procps", "sed",
    "udev", "util-linux", "xfsprogs",
)  # fmt: skip
# Cilium compiles its datapath on the node.
COMPILER = ("clang-19",)
# Runs the programs of `addons/programs`.
PYTHON = ("base-files", "base-passwd", "ca-certificates", "libpython3-stdlib", "python3-minimal")
# Needed by packages' descriptions, not by the programs that run here.
_LEFT_OUT = (
    "binutils", "debconf", "dpkg", "init-system-helpers", "libc6-dev", "libgcc-14-dev",
    "libobjc-14-dev", "libpython3", "libstdc++-14-dev", "linux-libc-dev",
    "llvm-19-linker-tools", "openssl", "perl-base", "python3", "sensible-utils", "systemd", "tar",
)  # fmt: skip
_HEAPS = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/",
          "usr/share/lintian/", "usr/share/bug/", "usr/share/zoneinfo/", "var/cache/",
          "usr/share/bash-completion/", "usr/lib/udev/hwdb")  # fmt: skip
# Debian makes these by its alternatives system, outside every package.
_ALTERNATIVES = {
    "usr/bin/awk": "mawk",
    **{
        f"usr/sbin/{family}{verb}": "xtables-nft-multi"
        for family in ("iptables", "ip6tables")
        for verb in ("", "-save", "-restore")
    },
}


def layers() -> tuple[Layer, Layer]:
    """The layer with the tools, and on top of it the one with the compiler."""
    record = ensure(LAYERS) / f"debian-{key()}.json"
    if not record.exists():
        with step("make image layers of Debian packages"):
            made = _make(CACHE / "images" / ".debian")
        record.write_text(json.dumps([layer.digest for layer in made]))
    tools, compiler = (LAYERS / digest for digest in json.loads(record.read_text()))
    if not tools.exists() or not compiler.exists():
        record.unlink()
        return layers()
    return (Layer(tools, tools.name, tools.stat().st_size),
            Layer(compiler, compiler.name, compiler.stat().st_size))  # fmt: skip


def python() -> Layer:
    """Python with its standard library, and what of Debian it needs."""
    record = ensure(LAYERS) / f"python-{key()}.json"
    if record.exists():
        layer = LAYERS / json.loads(record.read_text())
        if layer.exists():
            return Layer(layer, layer.name, layer.stat().st_size)
    scratch = CACHE / "images" / ".python"
    with step("make an image layer of Debian's Python"):
        shutil.rmtree(scratch, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", base.rootfs(), scratch], check=True)
        try:
            _install(scratch, PYTHON)
            left_out = tuple(each for each in _LEFT_OUT if "python" not in each)
            made = _layer(scratch, _closure(scratch, PYTHON, left_out), links={})
        finally:
            shutil.rmtree(scratch)
    record.write_text(json.dumps(made.digest))
    return made


def busybox() -> Layer:
    """busybox with a link for each of its commands, taken out of the layer with the tools."""
    program = ensure(LAYERS / ".partial") / "busybox"
    with tarfile.open(layers()[0].path) as tar:
        content = tar.extractfile("usr/bin/busybox")
        assert content is not None
        program.write_bytes(content.read())
    program.chmod(0o755)
    writer = LayerWriter(LAYERS)
    writer.add("bin/busybox", program)
    listing = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    for command in listing.stdout.split():
        if command != "busybox":
            writer.link(f"bin/{command}", "busybox")
    shutil.rmtree(program.parent)
    return writer.close()


def key() -> str:
    """A short hash of everything that decides what is in the layers."""
    text = base.rootfs().name + Path(__file__).read_text()
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _make(scratch: Path) -> tuple[Layer, Layer]:
    """Install the packages into a copy of the base system, then take their files."""
    shutil.rmtree(scratch, ignore_errors=True)
    ensure(scratch.parent)
    subprocess.run(["cp", "-a", "--reflink=auto", base.rootfs(), scratch], check=True)
    try:
        _install(scratch, (*TOOLS, *COMPILER))
        tools = _closure(scratch, TOOLS)
        first = _layer(scratch, tools, links=_ALTERNATIVES)
        compiler = _closure(scratch, COMPILER) - tools
        return first, _layer(scratch, compiler, links={"usr/bin/clang": "clang-19"})
    finally:
        shutil.rmtree(scratch)


def _install(root: Path, packages: Iterable[str]) -> None:
    apt = "apt-get -q -y --no-install-recommends"
    script = f"{apt} update && {apt} install {' '.join(packages)}"
    result = base.run_inside(root, ["sh", "-c", script])
    if result.returncode != 0:
        tail = "\n".join(result.stdout.decode(errors="replace").splitlines()[-8:])
        raise LabError(f"apt failed in the copy of the base system:\n{tail}")


def _layer(root: Path, packages: Iterable[str], links: dict[str, str]) -> Layer:
    """The files of the packages, as dpkg recorded them."""
    writer = LayerWriter(LAYERS)
    names: set[str] = set()
    for package in packages:
        lists = [*(root / "var/lib/dpkg/info").glob(f"{package}.list"),
                 *(root / "var/lib/dpkg/info").glob(f"{package}:*.list")]  # fmt: skip
        for path in lists:
            names.update(line.strip("/") for line in path.read_text().splitlines())
    for name in sorted(names):
        source = root / name
        if (
            name in ("", ".")
            or name.startswith(_HEAPS)
            or not (source.exists() or source.is_symlink())
        ):
            continue
        # A package may still name a file by its old place: /bin is a link to /usr/bin now.
        parent = source.parent.resolve().relative_to(root.resolve())
        writer.add(str(parent / source.name), source)
    for name, target in links.items():
        writer.link(name, target)
    if "base-files" in packages:
        # The bundle that update-ca-certificates makes; users and groups that base-passwd makes.
        for name in ("etc/ssl/certs/ca-certificates.crt", "etc/passwd", "etc/group"):
            writer.add(name, root / name)
        writer.folder("tmp", 0o1777)
    return writer.close()


def _closure(root: Path, wanted: Iterable[str], left_out: tuple[str, ...] = _LEFT_OUT) -> set[str]:
    """The packages and everything they depend on, by dpkg's status file."""
    needs: dict[str, list[list[str]]] = {}
    provided: dict[str, str] = {}
    for paragraph in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines()
            if ": " in line and not line.startswith(" ")
        )  # fmt: skip
        if "Package" not in fields:
            continue
        package = fields["Package"]
        clauses = ", ".join(fields[f] for f in ("Pre-Depends", "Depends") if f in fields)
        needs[package] = [_names(clause) for clause in clauses.split(", ") if clause]
        for name in _names(fields.get("Provides", "").replace(", ", "|")):
            provided.setdefault(name, package)
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        package = waiting.pop()
        if package in found or package.startswith(left_out):
            continue
        if package not in needs:
            raise LabError(f"the package {package} is not installed in the copy of the base system")
        found.add(package)
        for choices in needs[package]:
            present = [provided.get(c, c) for c in choices if c in needs or c in provided]
            waiting += present[:1]
    return found


def _names(clause: str) -> list[str]:
    """The package names of one clause of a dependency: `a (>= 1) | b:any`."""
    return [part.split()[0].split(":")[0] for part in clause.split("|") if part.strip()]
