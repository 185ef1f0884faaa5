"""The lab's image builder and the files it writes, without building anything."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import versions as cluster_versions
from lab import gobuild, object_store
from lab.image import debian, programs, versions
from lab.image.charts import _OWN
from lab.image.oci import Image, Layer, LayerWriter, write_archive


def layer(folder: Path, text: str = "hello") -> Layer:
    writer = LayerWriter(folder)
    writer.write("etc/greeting", text)
    writer.link("bin/sh", "busybox")
    writer.folder("tmp", 0o1777)
    return writer.close()


def read(archive: Path, name: str) -> dict[str, Any]:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(name)
        assert member is not None
        found: dict[str, Any] = json.loads(member.read())
        return found


def test_a_layer_has_the_same_bytes_on_every_run(tmp_path: Path) -> None:
    first = layer(tmp_path / "a")
    assert layer(tmp_path / "b").digest == first.digest
    assert layer(tmp_path / "c", "other").digest != first.digest
    assert hashlib.sha256(first.path.read_bytes()).hexdigest() == first.digest


def test_a_layer_makes_the_folders_above_its_files_once(tmp_path: Path) -> None:
    with tarfile.open(layer(tmp_path).path) as tar:
        members = {member.name: member for member in tar.getmembers()}
    assert list(members) == ["etc", "etc/greeting", "bin", "bin/sh", "tmp"]
    assert members["etc"].isdir()
    assert members["bin/sh"].linkname == "busybox"
    assert members["tmp"].mode == 0o1777
    assert {(m.uid, m.gid, m.mtime) for m in members.values()} == {(0, 0, 0)}


def test_an_archive_holds_every_layer_once_and_names_every_image(tmp_path: Path) -> None:
    shared, own = layer(tmp_path), layer(tmp_path, "own")
    images = [
        Image(name="registry.example/a:v1", layers=[shared], command=["/a"]),
        Image(name="registry.example/b:v2", layers=[shared, own], entrypoint=["/b"], user="1:1"),
    ]
    archive = write_archive(images, tmp_path / "images.tar")
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert len(names) == len(set(names))
    index = read(archive, "index.json")
    assert [m["annotations"]["io.containerd.image.name"] for m in index["manifests"]] == [
        "registry.example/a:v1", "registry.example/b:v2",
    ]  # fmt: skip
    second = read(archive, f"blobs/sha256/{index['manifests'][1]['digest'][7:]}")
    assert [part["digest"][7:] for part in second["layers"]] == [shared.digest, own.digest]
    config = read(archive, f"blobs/sha256/{second['config']['digest'][7:]}")
    assert config["config"]["Entrypoint"] == ["/b"]
    assert config["config"]["User"] == "1:1"
    assert config["rootfs"]["diff_ids"] == [f"sha256:{shared.digest}", f"sha256:{own.digest}"]


def test_nothing_half_written_is_left_when_an_image_fails(tmp_path: Path) -> None:
    missing = Layer(tmp_path / "missing", "0" * 64, 1)
    with pytest.raises(FileNotFoundError):
        write_archive([Image(name="x:1", layers=[missing])], tmp_path / "images.tar")
    assert not (tmp_path / "images.tar").exists()


STATUS = """\
Package: nft
Status: install ok installed
Depends: libnft (>= 1.0), awk | gawk

Package: libnft
Pre-Depends: libc6

Package: libc6
Depends: perl-base:any

Package: mawk
Provides: awk (= 1)

Package: perl-base
"""


def test_packages_come_with_their_dependencies(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(STATUS)
    # perl-base is among what no program here needs.
    assert debian._closure(tmp_path, ["nft"]) == {"nft", "libnft", "libc6", "mawk"}


def test_a_module_gets_a_dependency_with_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "example.org/web/v2"
    module, cached = tmp_path / "module", tmp_path / "mod"
    for file in (module / "go.mod", module / "over" / path / "ui/page.html", cached / "web.go"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{file.name}\n")
    # Go leaves it read-only.
    cached.chmod(0o555)
    monkeypatch.setattr(gobuild, "GO_CACHE", tmp_path / "go")
    monkeypatch.setattr(gobuild, "module_folder", lambda *_: cached)
    with gobuild._completed(module, [path]) as folder:
        copy = folder / "completed" / path
        assert (folder / "go.mod").read_text().splitlines()[-1] == (
            f"replace {path} => ./completed/{path}"
        )
        assert (copy / "web.go").read_text() == "web.go\n"
        assert (copy / "ui/page.html").read_text() == "page.html\n"
    assert not folder.exists()
    assert (module / "go.mod").read_text() == "go.mod\n"
    with gobuild._completed(module, []) as folder:
        assert folder == module


def required(module: str) -> list[str]:
    """The requirements of a module, as `path version`."""
    lines = (programs.MODULES / module / "go.mod").read_text().splitlines()
    return [line.strip().removeprefix("require ").removesuffix(" // indirect") for line in lines]


@pytest.mark.parametrize(
    ("module", "path", "version"),
    [
        ("containerd", "github.com/containerd/containerd/v2", versions.CONTAINERD),
        ("etcd", "go.etcd.io/etcd/server/v3", versions.ETCD),
        ("coredns", "github.com/coredns/coredns", versions.COREDNS),
        ("crictl", "sigs.k8s.io/cri-tools", versions.CRICTL),
        ("cilium", "github.com/cilium/cilium", versions.CILIUM),
        (
            "cloud-provider-openstack", "k8s.io/cloud-provider-openstack",
            versions.CLOUD_PROVIDER_OPENSTACK,
        ),
        ("addons", "sigs.k8s.io/metrics-server", versions.METRICS_SERVER[1]),
        ("prometheus", "github.com/prometheus/prometheus", versions.PROMETHEUS[1]),
        ("node-exporter", "github.com/prometheus/node_exporter", versions.NODE_EXPORTER[1]),
        ("kube-state-metrics", "k8s.io/kube-state-metrics/v2", versions.KUBE_STATE_METRICS),
        ("alertmanager", "github.com/prometheus/alertmanager", versions.ALERTMANAGER),
        ("traefik", "github.com/traefik/traefik/v3", versions.TRAEFIK),
        (
            "prometheus-operator", "github.com/prometheus-operator/prometheus-operator",
            versions.PROMETHEUS_OPERATOR,
        ),
        *(
            (f"kubernetes-{release[1:].rpartition('.')[0]}", "k8s.io/kubernetes", release)
            for release in versions.KUBERNETES_RELEASES
        ),
    ],
)  # fmt: skip
def test_the_modules_are_at_the_listed_versions(module: str, path: str, version: str) -> None:
    assert f"{path} {version}" in required(module)


def test_the_image_of_our_cron_jobs_has_the_tag_that_clusters_ask_for() -> None:
    assert versions.PYTHON == cluster_versions.JOBS_PYTHON


def test_the_object_store_has_the_tag_that_clusters_ask_for() -> None:
    assert versions.VERSITYGW == cluster_versions.VERSITYGW
    assert f"github.com/versity/versitygw {versions.VERSITYGW}" in required(
        str(object_store.MODULE)
    )


def test_our_own_charts_have_the_names_of_their_folders() -> None:
    for chart in _OWN.iterdir():
        assert yaml.safe_load((chart / "Chart.yaml").read_text())["name"] == chart.name
