"""Packs what node scripts work with: themselves, settings and secrets."""

from __future__ import annotations

import atexit
import base64
import hashlib
import io
import re
import shlex
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import deflate

USERDATA = Path(__file__).resolve().parent.parent / "userdata"


# What editors and file managers leave.
_LEFT = re.compile(r"^\.|~$|\.orig$")


def scripts(*folders: str) -> dict[str, str]:
    """Everything in these folders of `userdata/`, or in all of them, by its path there."""
    folders = folders or tuple(
        path.name for path in USERDATA.iterdir() if path.is_dir() and not _LEFT.search(path.name)
    )
    return {name: text for folder in folders for name, text in _scripts(folder).items()}


@cache
def _scripts(folder: str) -> dict[str, str]:
    # Every node has the same ones: each is read once.
    files = [path for path in (USERDATA / folder).rglob("*") if path.is_file()]
    return {
        str(path.relative_to(USERDATA)): path.read_text(encoding="utf-8")
        for path in files
        if not _LEFT.search(path.name)
    }


@dataclass(frozen=True)
class Archive:
    """A file on this machine, and its SHA-256."""

    path: Path
    checksum: str


@cache
def script_archive() -> Archive:
    """All scripts, packed in a file that is there until the program ends."""
    content = _tar_gz(scripts())
    with tempfile.NamedTemporaryFile(suffix=".tar.gz", delete=False) as file:
        file.write(content)
    path = Path(file.name)
    atexit.register(path.unlink, missing_ok=True)
    return Archive(path, hashlib.sha256(content).hexdigest())


def pack(files: Mapping[str, str]) -> str:
    """A folder as base64 text of a tar.gz. The same files give the same text on every machine."""
    return base64.encodebytes(_tar_gz(files)).decode()


def _tar_gz(files: Mapping[str, str]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in sorted(files):
            content = files[name].encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o600
            tar.addfile(entry, io.BytesIO(content))
    # Python's gzip has the system's zlib: a Mac and a CI job would see each other's as changes.
    return bytes(deflate.gzip_compress(archive.getvalue()))


def environment_file(values: Mapping[str, str | int | bool]) -> str:
    """`node.env`: KEY='value' lines that a shell reads as plain data."""

    def text(value: str | int | bool) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return "".join(f"{key}={shlex.quote(text(value))}\n" for key, value in sorted(values.items()))
