"""The lab's private registry and chart repository, served on a local port."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest
import yaml

from lab.image.oci import Image, LayerWriter, write_archive
from tests.lab.mirror import Charts, Images, Mirror

ROOT = "registry.k8s.io"


class Site:
    """A mirror with two images and a chart, and its log."""

    def __init__(self, folder: Path) -> None:
        writer = LayerWriter(folder / "layers")
        # More than one block.
        writer.write("big", "x" * 3_000_000)
        self.layer = writer.close()
        images = [
            Image(name=f"{ROOT}/coredns/coredns:v1.14.2", layers=[self.layer], command=["/c"]),
            Image(name="quay.io/cilium/cilium:v1.19.3", layers=[self.layer], command=["/a"]),
        ]
        self.archive = write_archive(images, folder / "images.tar")
        chart = folder / "charts" / "some-folder"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: '1.2.3' # pinned\n")
        (chart / "templates" / "pod.yaml").write_text("kind: Pod\n")
        for left_out in ("crds/kustomization.yaml", "charts/sub/ci/values.yaml", "note.bak"):
            (chart / left_out).parent.mkdir(parents=True, exist_ok=True)
            (chart / left_out).touch()
        (chart / ".helmignore").write_text("# no charts\nci/\ncrds/kustomization.yaml\n*.bak\n")
        self.log: list[str] = []
        self.mirror = Mirror(
            ("127.0.0.1", 0),
            Images.of([self.archive]),
            Charts(folder / "charts"),
            self.log.append,
        )
        self.url = f"http://127.0.0.1:{self.mirror.server_port}"

    def ask(self, path: str, method: str = "GET") -> tuple[bytes, Message]:
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read(), answer.headers


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("mirror"))
    thread = threading.Thread(target=made.mirror.serve_forever)
    thread.start()
    yield made
    made.mirror.shutdown()
    thread.join()
    made.mirror.server_close()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_it_answers_as_a_registry(site: Site) -> None:
    assert json.loads(site.ask("/v2/")[0]) == {}


def test_an_image_is_found_by_tag_and_by_digest_without_its_registry(site: Site) -> None:
    manifest, headers = site.ask("/v2/cilium/cilium/manifests/v1.19.3?ns=mirror.example")
    assert headers["Docker-Content-Digest"] == digest_of(manifest)
    assert headers["Content-Type"] == json.loads(manifest)["mediaType"]
    assert int(headers["Content-Length"]) == len(manifest)
    assert site.ask(f"/v2/cilium/cilium/manifests/{digest_of(manifest)}")[0] == manifest
    assert "200 image cilium/cilium:v1.19.3" in site.log


def test_coredns_is_also_found_by_the_name_that_kubeadm_uses_with_a_mirror(site: Site) -> None:
    own = site.ask("/v2/coredns/coredns/manifests/v1.14.2")[0]
    assert site.ask("/v2/coredns/manifests/v1.14.2")[0] == own


def test_configuration_and_layers_are_served_unchanged(site: Site) -> None:
    manifest = json.loads(site.ask("/v2/cilium/cilium/manifests/v1.19.3")[0])
    for part in (manifest["config"], *manifest["layers"]):
        blob, headers = site.ask(f"/v2/cilium/cilium/blobs/{part['digest']}")
        assert digest_of(blob) == part["digest"] == headers["Docker-Content-Digest"]
        assert len(blob) == part["size"]
    assert manifest["layers"][0]["digest"] == f"sha256:{site.layer.digest}"


@pytest.mark.parametrize("what", ["manifests/v1.19.3", "blobs/{layer}"])
def test_head_returns_the_same_headers_without_content(site: Site, what: str) -> None:
    path = f"/v2/cilium/cilium/{what.format(layer=f'sha256:{site.layer.digest}')}"
    content, headers = site.ask(path)
    nothing, same = site.ask(path, "HEAD")
    assert nothing == b""
    assert int(same["Content-Length"]) == len(content)
    for each in ("Content-Type", "Docker-Content-Digest"):
        assert same[each] == headers[each]


@pytest.mark.parametrize(
    "path",
    [
        "/v2/cilium/other/manifests/v1.19.3",
        "/v2/cilium/cilium/manifests/v1",
        f"/v2/cilium/cilium/blobs/sha256:{'0' * 64}",
        "/charts/shop-1.2.4.tgz",
        "/else",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_anything_else_is_not_found(site: Site, path: str, method: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        site.ask(path, method)
    refused.value.close()
    assert refused.value.code == 404
    assert site.log[-1].startswith("404 ")


def test_a_chart_is_listed_and_packed_under_its_name(site: Site) -> None:
    index = yaml.safe_load(site.ask("/charts/index.yaml")[0])
    [entry] = index["entries"]["shop"]
    assert entry["version"] == "1.2.3"
    [file] = entry["urls"]
    assert file == "shop-1.2.3.tgz"
    with tarfile.open(fileobj=io.BytesIO(site.ask(f"/charts/{file}")[0]), mode="r:gz") as tar:
        files = [member.name for member in tar if member.isfile()]
    # Without the files that .helmignore names.
    assert sorted(files) == ["shop/.helmignore", "shop/Chart.yaml", "shop/templates/pod.yaml"]
    assert "200 chart shop-1.2.3.tgz" in site.log
