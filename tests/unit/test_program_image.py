"""The lab's image of the program, in place of the one that the Containerfile makes."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from lab import program_image
from lab.image.oci import Layer


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers and charts in a folder of the test."""
    monkeypatch.setattr(program_image, "_LAYERS", tmp_path / "layers")
    monkeypatch.setattr(program_image, "CHARTS", tmp_path / "charts")
    monkeypatch.setattr(program_image, "FETCHED", tmp_path / "charts/fetched")
    for name in ("cilium", "fetched/operator"):
        chart = tmp_path / "charts" / name
        chart.mkdir(parents=True)
        (chart / "Chart.yaml").touch()


def entries(layer: Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as tar:
        return {each.name: each for each in tar}


def test_it_has_what_the_containerfile_copies_and_the_charts() -> None:
    made = entries(program_image._program())
    files = {name for name, each in made.items() if each.isfile()}
    assert {
        "program/Pulumi.yaml",
        "program/__main__.py",
        "program/addons/programs/take_snapshots.py",
        "program/commands/recover/__main__.py",
        "program/userdata/install/install.sh",
        "usr/local/bin/pulumi",
        "charts/cilium/Chart.yaml",
        "charts/operator/Chart.yaml",
    } <= files
    assert not {name for name in files if name.startswith(("program/tests", "program/lab"))}
    assert not [name for name in files if "__pycache__" in name]
    # Pulumi writes the configuration there, and does not run as root.
    assert made["program"].mode == 0o777
    assert made["usr/local/bin/pulumi"].mode == 0o755


def test_its_python_finds_the_locked_packages(tmp_path: Path) -> None:
    (tmp_path / "packages/yaml").mkdir(parents=True)
    (tmp_path / "packages/yaml/__init__.py").touch()
    made = entries(program_image._virtual_environment(tmp_path / "packages"))
    assert made["program/.venv/bin/python"].linkname == "/usr/bin/python3"
    assert "program/.venv/lib/python3.13/site-packages/yaml/__init__.py" in made
    assert "program/.venv/pyvenv.cfg" in made
