"""Helm charts from the source trees of the modules that the programs are built from."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab import gobuild
from lab.image import programs
from lab.paths import CACHE, ensure

CHARTS = CACHE / "charts"
# Charts that a user has put here, each in a folder of its name: nothing in the project needs them.
FETCHED = CHARTS / "fetched"
# The chart of the cloud controller manager is left out: it needs one from a chart repository.
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
    """Make the folder for the program's `addons.chartDirectory`, with one folder for each chart."""
    for name, (module, path, inside) in _SOURCES.items():
        if not _current(name, gobuild.fingerprint(programs.MODULES / module)):
            _put(name, [(programs.source(module, path) / inside, ".", "*")])
    module, path, inside = _CRDS
    crds_key = gobuild.fingerprint(programs.MODULES / module)
    for own in sorted(_OWN.iterdir()):
        key = gobuild.fingerprint(own, crds_key, str(_CRDS))
        if not _current(own.name, key):
            crds = programs.source(module, path) / inside
            _put(own.name, [(own, ".", "*"), (crds, "crds", "snapshot.storage.k8s.io_*.yaml")])
    return CHARTS


def _current(name: str, key: str) -> bool:
    """True if the chart was made from this key; if not, remove it and note the new key."""
    mark = ensure(CHARTS) / f".{name}.key"
    if (CHARTS / name).is_dir() and mark.exists() and mark.read_text() == key:
        return True
    shutil.rmtree(CHARTS / name, ignore_errors=True)
    mark.write_text(key)
    return False


def _put(name: str, sources: list[tuple[Path, str, str]]) -> None:
    """Make a chart of (folder, place in the chart, pattern); it appears when it is complete."""
    partial = CHARTS / f".{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for folder, place, pattern in sources:
        for path in sorted(p for p in folder.rglob(pattern) if p.is_file()):
            copy = partial / place / path.relative_to(folder)
            ensure(copy.parent)
            # Contents only: the module cache is read-only.
            shutil.copyfile(path, copy)
    partial.rename(CHARTS / name)
