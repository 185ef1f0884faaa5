"""Helm charts out of the source trees of the modules that the programs are built from."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from lab.image import programs
from lab.paths import CACHE, ensure

CHARTS = CACHE / "charts"
# The chart of the cloud controller manager needs one from a chart repository: left out.
_SOURCES = {
    "cilium": ("cilium", "github.com/cilium/cilium", "install/kubernetes/cilium"),
    "openstack-cinder-csi": (
        "cloud-provider-openstack", "k8s.io/cloud-provider-openstack", "charts/cinder-csi-plugin",
    ),
    "metrics-server": ("addons", "sigs.k8s.io/metrics-server", "charts/metrics-server"),
}  # fmt: skip
# Charts of our own where none is in a module; their CRDs are.
_OWN = Path(__file__).with_name("own-charts")
_CRDS = ("addons", "github.com/kubernetes-csi/external-snapshotter/client/v8", "config/crd")


def export() -> Path:
    """A folder with one folder for each chart, for the program's `addons.chartDirectory`."""
    for name, (module, path, inside) in _SOURCES.items():
        _put(name, [(programs.source(module, path) / inside, ".", "*")])
    module, path, inside = _CRDS
    crds = programs.source(module, path) / inside
    for own in sorted(_OWN.iterdir()):
        _put(own.name, [(own, ".", "*"), (crds, "crds", "snapshot.storage.k8s.io_*.yaml")])
    return CHARTS


def _put(name: str, sources: list[tuple[Path, str, str]]) -> None:
    """Copy (folder, place in the chart, pattern) together; the chart appears complete or not."""
    digest = hashlib.sha256()
    files: dict[str, Path] = {}
    for folder, place, pattern in sources:
        for path in sorted(folder.rglob(pattern)):
            if path.is_file():
                files[str(Path(place) / path.relative_to(folder))] = path
    for inside, path in files.items():
        digest.update(inside.encode() + b"\0" + path.read_bytes() + b"\0")
    mark = CHARTS / f".{name}.sha256"
    target = ensure(CHARTS) / name
    if target.is_dir() and mark.exists() and mark.read_text() == digest.hexdigest():
        return
    partial = CHARTS / f".{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for inside, path in files.items():
        ensure((partial / inside).parent)
        # Contents only: the module cache is read-only.
        shutil.copyfile(path, partial / inside)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    mark.write_text(digest.hexdigest())
