"""Write container images: an OCI image layout in one tar file, the same bytes on every run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.paths import ensure

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Layer:
    """One uncompressed layer: what it costs to compress is more than what it saves here."""

    path: Path
    digest: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image: its full name with the tag, its layers from the lowest up, how it starts."""

    name: str
    layers: Sequence[Layer]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_directory: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)


class LayerWriter:
    """Collects files, then writes them as a layer below `folder`, named after its digest."""

    def __init__(self, folder: Path) -> None:
        self._folder = ensure(folder)
        self._partial = folder / f".{os.getpid()}.partial"
        # Closed by close(), which every layer ends with.
        self._tar = tarfile.open(self._partial, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._seen: set[str] = set()

    def add(self, name: str, source: Path, mode: int | None = None) -> None:
        """Add a file, a symbolic link or an (empty) folder of the machine as `name`."""
        name = name.strip("/")
        if name in self._seen or not name:
            return
        self._parents(name)
        status = source.lstat()
        kind = stat.S_IFMT(status.st_mode)
        entry = self._entry(name, stat.S_IMODE(status.st_mode) if mode is None else mode)
        if kind == stat.S_IFLNK:
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(source)
            self._tar.addfile(entry)
        elif kind == stat.S_IFDIR:
            entry.type = tarfile.DIRTYPE
            self._tar.addfile(entry)
        elif kind == stat.S_IFREG:
            entry.size = status.st_size
            with open(source, "rb") as content:
                self._tar.addfile(entry, content)

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """Add a file with this text."""
        self._parents(name)
        entry = self._entry(name, mode)
        entry.size = len(text.encode())
        self._tar.addfile(entry, io.BytesIO(text.encode()))

    def folder(self, name: str, mode: int = 0o755) -> None:
        """Add an empty folder."""
        name = name.strip("/")
        if name in self._seen:
            return
        self._parents(name)
        entry = self._entry(name, mode)
        entry.type = tarfile.DIRTYPE
        self._tar.addfile(entry)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._parents(name)
        entry = self._entry(name, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(entry)

    def tree(self, name: str, source: Path, leave_out: Sequence[str] = ()) -> None:
        """Add a folder with all that is in it but the folders `leave_out`."""
        for path in sorted(source.rglob("*")):
            inside = str(path.relative_to(source))
            if not any(inside == f or inside.startswith(f"{f}/") for f in leave_out):
                # The module cache is read-only; in an image its owner may write.
                mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
                self.add(f"{name}/{inside}", path, mode)

    def close(self) -> Layer:
        """Write the layer; the same files give the same digest."""
        self._tar.close()
        with open(self._partial, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        target = self._folder / digest
        self._partial.rename(target)
        return Layer(target, digest, target.stat().st_size)

    def _parents(self, name: str) -> None:
        parent = os.path.dirname(name.strip("/"))
        if parent and parent not in self._seen:
            self.folder(parent)

    def _entry(self, name: str, mode: int) -> tarfile.TarInfo:
        # Owner 0:0, time 0: a layer says nothing of the machine that wrote it.
        entry = tarfile.TarInfo(name.strip("/"))
        entry.mode = mode
        self._seen.add(entry.name)
        return entry


def write_archive(images: Iterable[Image], target: Path) -> Path:
    """Write the images into one archive that `ctr images import` reads; each layer once.

    It appears only when it is complete.
    """
    partial = ensure(target.parent) / f".{target.name}.partial"
    written: set[str] = set()
    entries = []
    with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as tar:
        _put(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for image in images:
            for layer in image.layers:
                if layer.digest not in written:
                    written.add(layer.digest)
                    entry = tarfile.TarInfo(f"blobs/sha256/{layer.digest}")
                    entry.size, entry.mode = layer.size, 0o644
                    with open(layer.path, "rb") as content:
                        tar.addfile(entry, content)
            config = _blob(tar, written, _CONFIG, _configuration(image))
            manifest = {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": config,
                "layers": [
                    {"mediaType": _LAYER, "digest": f"sha256:{part.digest}", "size": part.size}
                    for part in image.layers
                ],
            }
            described = _blob(tar, written, _MANIFEST, manifest)
            described["annotations"] = {
                "io.containerd.image.name": image.name,
                "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
            }
            entries.append(described)
        index = {"schemaVersion": 2, "manifests": entries}
        _put(tar, "index.json", json.dumps(index, sort_keys=True).encode())
    partial.rename(target)
    return target


def architecture() -> str:
    """This machine's architecture by its name in images."""
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise LabError(f"no images for {machine} machines: the lab knows x86_64 and aarch64")
    return _ARCHITECTURES[machine]


def _configuration(image: Image) -> dict[str, Any]:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = {"PATH": path, **image.environment}
    settings: dict[str, Any] = {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": image.working_directory,
    }
    if image.entrypoint:
        settings["Entrypoint"] = list(image.entrypoint)
    if image.command:
        settings["Cmd"] = list(image.command)
    if image.user:
        settings["User"] = image.user
    if image.labels:
        settings["Labels"] = dict(image.labels)
    return {
        "architecture": architecture(),
        "os": "linux",
        "config": settings,
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{layer.digest}" for layer in image.layers],
        },
    }


def _blob(
    tar: tarfile.TarFile, written: set[str], media_type: str, value: dict[str, Any]
) -> dict[str, Any]:
    data = json.dumps(value, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    if digest not in written:
        written.add(digest)
        _put(tar, f"blobs/sha256/{digest}", data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
