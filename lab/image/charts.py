"""Helm charts out of the source trees of the modules that the programs are built from."""

from __future__ import annotations

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
}  # fmt: skip


def export() -> Path:
    """A folder with one folder for each chart, for the program's `addons.chartDirectory`."""
    for name, (module, path, inside) in _SOURCES.items():
        source = programs.source(module, path)
        target = ensure(CHARTS) / name
        made_from = CHARTS / f".{name}.source"
        if target.is_dir() and made_from.exists() and made_from.read_text() == str(source):
            continue
        partial = CHARTS / f".{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source / inside, partial)
        for entry in (partial, *partial.rglob("*")):
            entry.chmod(0o755 if entry.is_dir() else 0o644)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
        made_from.write_text(str(source))
    return CHARTS
