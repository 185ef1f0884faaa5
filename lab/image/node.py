"""The node image: the base system, baked by userdata/install from the lab's own programs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.console import step
from lab.errors import LabError
from lab.image import archives, base, disk, programs
from lab.paths import CACHE, LOGS, PROJECT, ensure

ARTIFACTS = Path("opt/openstack-kubernetes/artifacts")
_SCRIPTS = [PROJECT / "userdata" / folder for folder in ("install", "lib")]
_ON_NODE = ("kubeadm", "kubelet", "kubectl")
_FILES = Path(__file__).with_name("node-files")


def build(releases: Sequence[str], *, addons: bool = False) -> Path:
    """The image with the first release installed and all of them within reach of install.sh.

    With `addons` it also has the images of add-ons that a cluster can do without.
    """
    if os.geteuid() != 0:
        raise LabError("making the node image needs root: run again with sudo")
    # The compilers wait for each other, the base system waits for the network: both at once.
    with ThreadPoolExecutor(1) as background:
        system = background.submit(base.rootfs)
        programs.build_all(releases)
        system.result()
    parts = [archives.kubernetes(release) for release in releases]
    parts += [archives.cilium(), archives.openstack(), archives.object_store(), archives.tests()]
    if addons:
        parts += [archives.addons(), archives.python(), *archives.fetched()]
    key = _fingerprint(releases, parts)
    kind = "addons" if addons else "node"
    target = CACHE / "image" / f"{kind}-{releases[0]}-{key}.qcow2"
    if target.exists():
        return target
    root = ensure(target.parent) / ".node.partial"
    with step(f"bake the node image for Kubernetes {', '.join(releases)}"):
        shutil.rmtree(root, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", base.rootfs(), root], check=True)
        try:
            _artifacts(root, releases)
            _bake(root, releases[0], parts)
            _settle(root, releases[0])
            disk.make_image(root, target)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    for old in target.parent.glob(f"{kind}-{releases[0]}-*.qcow2"):
        if old != target:
            old.unlink()
    return target


def _artifacts(root: Path, releases: Sequence[str]) -> None:
    """The folder that install.sh looks into before it asks the network."""
    folder = root / ARTIFACTS
    for release in releases:
        source = programs.kubernetes(release)
        ensure(folder / release)
        for program in _ON_NODE:
            shutil.copy2(source / program, folder / release / program)
    ensure(folder / "containerd")
    for path in programs.containerd().iterdir():
        shutil.copy2(path, folder / "containerd" / path.name)
    shutil.copy2(programs.crictl() / "crictl", folder / "crictl")
    for path in sorted(_FILES.rglob("*")):
        if path.is_file():
            copy = root / path.relative_to(_FILES)
            ensure(copy.parent)
            shutil.copyfile(path, copy)


def _bake(root: Path, release: str, parts: Sequence[Path]) -> None:
    work = ensure(root / "opt/bake")
    for scripts in _SCRIPTS:
        shutil.copytree(scripts, work / scripts.name)
    for part in parts:
        os.link(part, work / part.name)
    log = ensure(LOGS) / "image-node.log"
    with step(f"userdata/install/bake.sh (log: {log})"):
        result = base.run_inside(
            root,
            ["bash", "/opt/bake/install/bake.sh", "/opt/bake"],
            {"KUBERNETES_VERSION": release},
        )
    log.write_bytes(result.stdout)
    if result.returncode != 0:
        tail = "\n".join(result.stdout.decode(errors="replace").splitlines()[-8:])
        raise LabError(f"userdata/install/bake.sh failed, see {log}:\n{tail}")
    shutil.rmtree(work)


def _settle(root: Path, release: str) -> None:
    """Keep one copy of what is installed and also an artifact."""
    places = {
        **{f"{release}/{program}": program for program in _ON_NODE},
        **{f"containerd/{path.name}": path.name for path in programs.containerd().iterdir()},
        "crictl": "crictl",
    }
    for artifact, program in places.items():
        installed = root / "usr/bin" / program
        if installed.stat().st_size != (root / ARTIFACTS / artifact).stat().st_size:
            raise LabError(f"the node image got another {program} than the one the lab built")
        installed.unlink()
        os.link(root / ARTIFACTS / artifact, installed)


def _fingerprint(releases: Sequence[str], parts: Sequence[Path]) -> str:
    # Size and time: our own archives are named after their contents, others are not.
    fetched = {path: path.stat() for path in parts if path.parent == archives.FETCHED}
    texts = [f"{path.name} {found.st_size} {found.st_mtime_ns}" for path, found in fetched.items()]
    texts += [path.name for path in parts if path not in fetched]
    digest = hashlib.sha256("\0".join([*releases, *texts]).encode())
    folders = [*_SCRIPTS, _FILES]
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    files += [Path(__file__), Path(disk.__file__)]
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for folder in (base.rootfs(), programs.containerd(), programs.crictl()):
        digest.update(folder.name.encode())
    return digest.hexdigest()[:12]
