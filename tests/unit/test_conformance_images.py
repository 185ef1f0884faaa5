"""The archive with the images of the conformance tests."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab.image.oci import Layer, LayerWriter
from tests.conformance import programs
from tests.lab import conformance_images, upstream_busybox
from tests.lab.mirror import Images

E2E = "registry.k8s.io/e2e-test-images"
LISTED = [
    f"{E2E}/agnhost:2.55", f"{E2E}/agnhost:2.63.0", f"{E2E}/nginx:1.15-4", f"{E2E}/nginx:1.27-0",
    *(f"{E2E}/{name}:1.0" for name in (
        "busybox", "glibc-dns-testing", "kitten", "nautilus", "nonewprivs", "nonroot",
        "sample-apiserver", "perl",
    )),
    "registry.k8s.io/pause:3.10.2", "gcr.io/authenticated/agnhost:2.6",
]  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive, of programs and packages that are files with a word."""
    source = tmp_path / "source/test/images"
    files = ["agnhost/porter/localhost.crt", "agnhost/porter/localhost.key"]
    files += [
        f"{cat}/html/{f}" for cat in ("kitten", "nautilus") for f in (f"{cat}.jpg", "data.json")
    ]
    for name in files:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)

    def program(folder: Path, name: str, package: str, *verb: str) -> Path:
        (tmp_path / name).write_text(package)
        return tmp_path / name

    def packages(*_: object) -> Layer:
        writer = LayerWriter(tmp_path / "debian")
        writer.write("usr/bin/curl", "curl")
        return writer.close()

    def busybox(folder: Path) -> Layer:
        writer = LayerWriter(folder / "layers")
        writer.write("bin/busybox", "busybox")
        return writer.close()

    monkeypatch.setattr(programs, "require", lambda *_: None)
    monkeypatch.setattr(programs, "program", program)
    monkeypatch.setattr(programs, "source", lambda folder: tmp_path / "source")
    monkeypatch.setattr(conformance_images, "listed", lambda e2e: LISTED)
    monkeypatch.setattr(conformance_images, "_debian", packages)
    monkeypatch.setattr(upstream_busybox, "layer", busybox)
    return conformance_images.archive("v1.36.3", tmp_path / "folder")


def blob(archive: Path, digest: str) -> bytes:
    with tarfile.open(archive) as tar:
        content = tar.extractfile(f"blobs/{digest.replace(':', '/')}")
        assert content is not None
        return content.read()


def manifest(archive: Path, name: str, tag: str) -> dict[str, Any]:
    """The manifest by which a registry serves the image."""
    found = Images.of([archive]).manifests[f"e2e-test-images/{name}"][tag]
    return dict(json.loads(blob(archive, found.digest)))


def test_a_registry_has_each_image_of_a_conformance_test_under_each_tag(archive: Path) -> None:
    served = {
        f"registry.k8s.io/{repository}:{tag}"
        for repository, known in Images.of([archive]).manifests.items()
        for tag in known
        if not tag.startswith("sha256:")
    }
    assert served == set(LISTED[:-3])


def test_two_tags_are_two_images(archive: Path) -> None:
    older, newer = (manifest(archive, "agnhost", tag) for tag in ("2.55", "2.63.0"))
    assert older["layers"] == newer["layers"]
    assert older["config"]["digest"] != newer["config"]["digest"]
    started = json.loads(blob(archive, newer["config"]["digest"]))["config"]
    assert (started["Entrypoint"], started["Cmd"]) == (["/agnhost"], ["pause"])


def test_the_program_that_may_not_gain_rights_has_the_bit_that_would(archive: Path) -> None:
    top = manifest(archive, "nonewprivs", "1.0")["layers"][-1]
    with tarfile.open(fileobj=io.BytesIO(blob(archive, top["digest"]))) as tar:
        assert tar.getmember("usr/local/bin/nnp").mode == 0o4755


def test_the_image_of_a_user_says_who(archive: Path) -> None:
    config = manifest(archive, "nonroot", "1.0")["config"]["digest"]
    assert json.loads(blob(archive, config))["config"]["User"] == "1234"
