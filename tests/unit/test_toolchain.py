"""The lab's tool chain: versions, origin of plugins, complete folders."""

from __future__ import annotations

import functools
import hashlib
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.toolchain import download, files, plugins, versions


def test_every_plugin_in_the_requirements_can_be_built() -> None:
    wanted = versions.plugins()
    assert {"openstack", "kubernetes", "tls", "command", "random"} <= wanted.keys()
    for name in wanted:
        assert (versions.GO / name / "go.mod").exists(), name


def test_the_versions_to_build_come_from_the_go_modules() -> None:
    assert versions.as_tuple(versions.of_module("pulumi", "github.com/pulumi/pulumi/pkg/v3")) > (3,)
    assert versions.as_tuple("3.272.0") > versions.as_tuple("3.259.10-alpha.1") > (3, 259, 9)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    folder = plugins.folder("tls", "1.0.0")
    folder.mkdir(parents=True)
    (folder / "pulumi-resource-tls").touch()
    return folder


def test_a_plugin_without_our_mark_is_official_and_stays_as_it_is(plugin: Path) -> None:
    assert plugins.origin("tls", "1.0.0") == "official"
    plugins.ensure_installed("tls", "1.0.0", Path("nowhere"), offline=True)
    assert [p.name for p in plugin.iterdir()] == ["pulumi-resource-tls"]


def test_a_plugin_with_our_mark_is_the_labs(plugin: Path) -> None:
    (plugin / plugins.MARK).touch()
    assert plugins.origin("tls", "1.0.0") == "lab"


def test_a_plugin_that_pulumi_did_not_finish_counts_as_missing(plugin: Path) -> None:
    plugin.with_name(f"{plugin.name}.partial").touch()
    assert plugins.origin("tls", "1.0.0") == ""


def test_a_folder_is_replaced_as_a_whole_and_only_when_something_changed(tmp_path: Path) -> None:
    source, target = tmp_path / "program", tmp_path / "target"
    source.write_text("one")
    files.replace_folder(target, [source], {"NOTE": "text"})
    made = target.stat().st_ino
    files.replace_folder(target, [source], {"NOTE": "text"})
    assert target.stat().st_ino == made
    files.replace_folder(target, [source], {"NOTE": "other"})
    assert (target / "NOTE").read_text() == "other"
    assert (target / "program").read_text() == "one"
    assert {p.name for p in tmp_path.iterdir()} == {"program", "target"}


def test_only_builds_of_the_same_program_are_removed(tmp_path: Path) -> None:
    for name in ("tls-0123456789ab", "tls-ba9876543210", "tls-extra-0123456789ab", "tls"):
        (tmp_path / name).mkdir()
    files.remove_others(tmp_path / "tls-0123456789ab")
    assert {p.name for p in tmp_path.iterdir()} == {
        "tls-0123456789ab",
        "tls-extra-0123456789ab",
        "tls",
    }


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Start a server with the release 1.2.3; yields the folder it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    archive = folder / f"pulumi-v1.2.3-{download.system()}.tar.gz"
    program = tmp_path / "pulumi"
    program.write_text("program")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(program, "pulumi/pulumi")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (folder / "pulumi-1.2.3-checksums.txt").write_text(f"{digest}  {archive.name}\n")
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    monkeypatch.setattr(download, "SERVER", f"http://127.0.0.1:{server.server_port}")
    download.reachable.cache_clear()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder
    server.shutdown()
    thread.join()
    server.server_close()
    download.reachable.cache_clear()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def test_a_release_is_unpacked_when_its_checksum_is_right(release: Path, tmp_path: Path) -> None:
    assert download.reachable("1.2.3")
    assert not (tmp_path / "bin").exists()
    download.cli("1.2.3", tmp_path / "bin" / "pulumi-release")
    assert (tmp_path / "bin" / "pulumi-release" / "pulumi").read_text() == "program"
    assert [p.name for p in (tmp_path / "bin").iterdir()] == ["pulumi-release"]


def test_a_release_with_a_wrong_checksum_is_refused(release: Path, tmp_path: Path) -> None:
    sums = release / "pulumi-1.2.3-checksums.txt"
    sums.write_text(sums.read_text().replace(sums.read_text()[:8], "00000000"))
    with pytest.raises(LabError, match="checksum"):
        download.cli("1.2.3", tmp_path / "bin" / "pulumi-release")
    assert not (tmp_path / "bin" / "pulumi-release").exists()


def test_a_release_that_is_not_served_counts_as_unreachable(release: Path, tmp_path: Path) -> None:
    assert not download.reachable("9.9.9")
    with pytest.raises(download.UnreachableError):
        download.cli("9.9.9", tmp_path / "pulumi-release")
