"""A read-only server of images and charts, as a site without internet access has one.

It prints one line for each answer: `200 image cilium/cilium:v1`.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# kubeadm asks every registry but its own for this name.
_ALIASES = {"coredns/coredns": "coredns"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Blob:
    """Part of an archive; it is never read as a whole."""

    archive: Path
    offset: int
    size: int


@dataclass(frozen=True)
class Manifest:
    """The manifest of an image, under a tag or a digest."""

    digest: str
    media_type: str


@dataclass
class Images:
    """Every image of some archives, under its name without the registry's host."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    # By repository, then by tag and by digest.
    manifests: dict[str, dict[str, Manifest]] = field(default_factory=dict)

    @classmethod
    def of(cls, archives: Iterable[Path]) -> Images:
        images = cls()
        for archive in archives:
            images._add(archive)
        return images

    def _add(self, archive: Path) -> None:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.name.startswith("blobs/"):
                    _, kind, digest = member.name.split("/")
                    blob = Blob(archive, member.offset_data, member.size)
                    self.blobs[f"{kind}:{digest}"] = blob
            index = tar.extractfile("index.json")
            assert index is not None
            listed = json.load(index)["manifests"]
        for each in listed:
            name = each["annotations"]["io.containerd.image.name"]
            repository, _, tag = name.partition("/")[2].rpartition(":")
            manifest = Manifest(each["digest"], each["mediaType"])
            for known in filter(None, (repository, _ALIASES.get(repository))):
                self.manifests.setdefault(known, {}).update(
                    {tag: manifest, manifest.digest: manifest}
                )


class Charts:
    """Unpacked charts, each in a folder of any name, as a chart repository."""

    def __init__(self, folder: Path | None) -> None:
        self.files: dict[str, bytes] = {}
        entries: dict[str, list[dict[str, Any]]] = {}
        for chart in sorted(folder.glob("*/Chart.yaml")) if folder else ():
            name, version = (_top_level(chart.read_text(), key) for key in ("name", "version"))
            file = f"{name}-{version}.tgz"
            self.files[file] = _packed(chart.parent, name)
            entry = {"apiVersion": "v2", "name": name, "version": version, "urls": [file]}
            entries.setdefault(name, []).append(entry)
        # JSON is YAML.
        index = {"apiVersion": "v1", "entries": entries}
        self.files["index.yaml"] = json.dumps(index, indent=1).encode()


def _top_level(text: str, key: str) -> str:
    """Read a string at the top level of a YAML document; the standard library reads no YAML."""
    lines = [line for line in text.splitlines() if line.startswith(f"{key}:")]
    return lines[0].partition(":")[2].partition(" #")[0].strip().strip("\"'")


def _packed(folder: Path, name: str) -> bytes:
    """Pack a chart as `helm package` does, without the files that .helmignore lists."""
    ignore = folder / ".helmignore"
    lines = ignore.read_text().splitlines() if ignore.exists() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = member.name.partition("/")[2]
        return None if any(_matches(each, path, member.isdir()) for each in patterns) else member

    target = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=target, mode="wb", mtime=0, compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w", dereference=True) as tar,
    ):
        tar.add(folder, name, filter=keep)
    return target.getvalue()


def _matches(pattern: str, path: str, folder: bool) -> bool:
    if pattern.endswith("/") and not folder:
        return False
    pattern = pattern.rstrip("/")
    # A pattern without a slash applies in every folder.
    found = path if "/" in pattern else path.rpartition("/")[2]
    return fnmatch.fnmatchcase(found, pattern.lstrip("/"))


class Mirror(ThreadingHTTPServer):
    """The server; it calls `say` with a line for each answer."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], images: Images, charts: Charts, say: Callable[[str], None]
    ) -> None:
        super().__init__(address, _Handler)
        self.images, self.charts, self.say = images, charts, say

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that hangs up is no error.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Mirror

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        # containerd names the mirrored registry after a question mark.
        path = self.path.partition("?")[0]
        match path.strip("/").split("/"):
            case ["v2"]:
                self._send("registry", "", b"{}", {"Content-Type": "application/json"})
            case ["v2", *repository, "manifests", reference]:
                self._manifest("/".join(repository), reference)
            case ["v2", *_, "blobs", digest]:
                self._blob(digest)
            case ["charts", file]:
                self._send("chart", file, self.server.charts.files.get(file))
            case _:
                self._send("path", path, None)

    def _manifest(self, repository: str, reference: str) -> None:
        name = f"{repository}{'@' if reference.startswith('sha256:') else ':'}{reference}"
        manifest = self.server.images.manifests.get(repository, {}).get(reference)
        if manifest is None:
            self._send("image", name, None)
            return
        headers = {"Content-Type": manifest.media_type, "Docker-Content-Digest": manifest.digest}
        self._send("image", name, self.server.images.blobs[manifest.digest], headers)

    def _blob(self, digest: str) -> None:
        self._send(
            "blob", digest, self.server.images.blobs.get(digest), {"Docker-Content-Digest": digest}
        )

    def _send(
        self, kind: str, name: str, found: bytes | Blob | None, headers: Mapping[str, str] = {}
    ) -> None:
        status = HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK
        self.server.say(f"{status.value} {kind} {name}".rstrip())
        content = b"" if found is None else found
        self.send_response(status)
        if found is not None:
            for key, value in {"Content-Type": "application/octet-stream", **headers}.items():
                self.send_header(key, value)
        size = content.size if isinstance(content, Blob) else len(content)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.command == "HEAD":
            return
        if isinstance(content, Blob):
            self._stream(content)
        else:
            self.wfile.write(content)

    def _stream(self, blob: Blob) -> None:
        with blob.archive.open("rb") as archive:
            archive.seek(blob.offset)
            left = blob.size
            while block := archive.read(min(left, _BLOCK)):
                self.wfile.write(block)
                left -= len(block)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.mirror", description=__doc__)
    parser.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--charts", type=Path, help="a folder of unpacked charts")
    chosen = parser.parse_args(arguments)
    images, charts = Images.of(chosen.archives), Charts(chosen.charts)

    def say(line: str) -> None:
        # One write for each line: other threads write too.
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    with Mirror((chosen.address, chosen.port), images, charts, say) as mirror:
        mirror.serve_forever()


if __name__ == "__main__":
    main()
