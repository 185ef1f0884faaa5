"""Images in the lab's Glance, after uploads that were interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.image import glance


class Glance:
    """Images by their IDs: their status, and the file that each was made from."""

    def __init__(self, **images: tuple[str, str]) -> None:
        self.images = images

    def __call__(self, *words: str) -> str:
        match words:
            case ("image", "list", *_):
                listed = [{"ID": each, "Status": self.images[each][0]} for each in self.images]
                return json.dumps(listed)
            case ("image", "show", image, *_):
                return json.dumps({"properties": {"lab_image_file": self.images[image][1]}})
            case ("image", "create", *_, file):
                self.images["new"] = ("active", file.partition("=")[2])
            case ("image", "delete", image):
                del self.images[image]
        return ""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node-2.qcow2"
    path.touch()
    return path


def register(monkeypatch: pytest.MonkeyPatch, file: Path, **images: tuple[str, str]) -> list[str]:
    """Register the file; returns the images that are left."""
    cloud = Glance(**images)
    monkeypatch.setattr(glance, "_openstack", cloud)
    glance.register("node", file, {})
    return list(cloud.images)


def test_an_image_of_this_file_stays_and_others_of_its_name_go(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    left = register(
        monkeypatch, file, old=("active", "node-1.qcow2"), current=("active", file.name)
    )
    assert left == ["current"]


def test_an_image_that_was_not_uploaded_completely_is_replaced(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    assert register(monkeypatch, file, broken=("queued", file.name)) == ["new"]
