"""The description of Cinder CSI for Kubernetes' tests of CSI drivers."""

from __future__ import annotations

from pathlib import Path

import yaml

FILE = Path(__file__).with_name("cinder.yaml")


def write(folder: Path, *, snapshots: bool) -> Path:
    """Write the description into the folder; without `snapshots` their tests skip themselves."""
    described = yaml.safe_load(FILE.read_text())
    if not snapshots:
        del described["SnapshotClass"]
        del described["DriverInfo"]["Capabilities"]["snapshotDataSource"]
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / FILE.name
    target.write_text(yaml.safe_dump(described))
    return target
