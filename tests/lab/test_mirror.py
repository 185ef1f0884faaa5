"""A cluster that takes every image and every chart from a private mirror.

Layers that the node image has are not sent again: containerd knows them by their digest. Add-ons
whose images the node image does not have take part when their charts are in the cache.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import versions
from components.addons import charts
from config.models.addons import AddonsSettings
from lab import image, settings
from lab.cloud import layout, namespace
from lab.cluster import Cluster, left_in_project, run
from lab.image import archives
from lab.paths import PROJECT
from lab.until import until
from tests.lab.needs import chart_folder

REGISTRY = "mirror.example"
PORT = 5080
URL = f"http://{layout.API}:{PORT}"
# Add-ons with images that the node image does not have: chart, settings.
EXTRAS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ingress": ("traefik", {"replicas": 1}),
    "monitoring": (
        "kube-prometheus-stack",
        {"storageSize": "2Gi", "values": {"grafana": {"enabled": False}}},
    ),
}
MISSING = "kured"


def extras() -> dict[str, Any]:
    """Settings of those extra add-ons that are available here."""
    if not list(archives.ARCHIVES.glob("addons-*.tar")):
        return {}
    return {
        name: {"enabled": True, **chosen}
        for name, (chart, chosen) in EXTRAS.items()
        if chart_folder(chart).is_dir()
    }


@pytest.fixture(scope="module")
def addons() -> dict[str, Any]:
    """The `addons` key, with everything from the mirror."""
    chosen: dict[str, Any] = settings.cluster(image="")["addons"]
    del chosen["chartDirectory"]
    return {
        **chosen,
        "chartRepository": f"{URL}/charts",
        "imageRegistry": REGISTRY,
        "snapshots": {"enabled": True},
        **extras(),
    }


@pytest.fixture(scope="module")
def wanted(addons: dict[str, Any]) -> dict[str, str]:
    """Charts of these add-ons with their pinned versions."""
    return {each.name: each.version for each in charts(AddonsSettings.model_validate(addons))}


@pytest.fixture(scope="module")
def node_image() -> str:
    """Name of the node image; making it makes the archives and the charts too."""
    return image.ensure()


@pytest.fixture(scope="module")
def mirror(
    node_image: str, wanted: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """File in which the mirror logs its answers."""
    folder = tmp_path_factory.mktemp("mirror")
    for name, version in wanted.items():
        file = shutil.copytree(chart_folder(name), folder / "charts" / name) / "Chart.yaml"
        # The lab has some charts in other versions than the pinned ones.
        file.write_text(re.sub(r"(?m)^version: .*$", f"version: {version}", file.read_text()))
    files = [*archives.ARCHIVES.glob("*.tar"), *archives.fetched()]
    words = ["--address", layout.API, "--port", str(PORT), "--charts", str(folder / "charts")]
    command = [sys.executable, "-m", "tests.lab.mirror", *words, *map(str, files)]
    log = folder / "asked"
    with (
        log.open("w") as said,
        subprocess.Popen(
            namespace.enter(command, folder=PROJECT),
            stdin=subprocess.DEVNULL,
            stdout=said,
        ) as server,
    ):
        try:
            until(lambda: run("curl", "-sf", f"{URL}/v2/", check=False) == "{}", "the mirror", 60)
            yield log
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def cluster(mirror: Path, node_image: str, addons: dict[str, Any]) -> Iterator[Cluster]:
    config = settings.cluster(image=node_image, gateways=1, control_planes=1, workers=1)
    mirrors = {REGISTRY: [URL]}
    made = Cluster("mirror", {**config, "registryMirrors": mirrors, "addons": addons})
    with made.running():
        yield made


def images(cluster: Cluster) -> set[str]:
    """Images in the pods' specs: their status may name a preloaded image instead."""
    return {
        container["image"]
        for each in cluster.pods()
        for kind in ("initContainers", "containers")
        for container in each["spec"].get(kind, [])
    }


def test_every_pod_runs(cluster: Cluster, addons: dict[str, Any]) -> None:
    if "monitoring" in addons:
        # The operator creates their pods.
        cluster.kubectl(
            *("-n", "monitoring", "wait", "prometheus,alertmanager", "--all"),
            *("--for=condition=Available", "--timeout=300s"),
        )
    cluster.wait_for_pods(300)
    assert cluster.nodes() == {"mirror-control-plane-0": True, "mirror-worker-0": True}


def test_every_image_comes_from_the_mirror(cluster: Cluster, mirror: Path) -> None:
    found = images(cluster)
    programs = ("kube-apiserver", "kube-proxy", "etcd", "coredns", "cilium/cilium")
    assert [each for each in programs if f"{REGISTRY}/{each}:" not in " ".join(found)] == []
    assert [each for each in found if not each.startswith(f"{REGISTRY}/")] == []
    asked = set(mirror.read_text().splitlines())
    names = {each.removeprefix(f"{REGISTRY}/") for each in found}
    print(f"\n{len(names)} images from the mirror", file=sys.stderr)
    assert [each for each in sorted(names) if f"200 image {each}" not in asked] == []


def test_the_sandbox_image_comes_from_the_mirror_too(cluster: Cluster) -> None:
    for node in cluster.nodes():
        configured = cluster.ssh(node, "sudo grep '^sandbox = ' /etc/containerd/config.toml")
        assert configured.startswith(f'sandbox = "{REGISTRY}/pause:'), node


def test_the_mirror_lacked_nothing(cluster: Cluster, mirror: Path) -> None:
    # Clients also ask for optional things, such as the list of an image's referrers.
    needed = ("404 image ", "404 blob ", "404 chart ")
    assert [line for line in mirror.read_text().splitlines() if line.startswith(needed)] == []


@pytest.mark.skipif(not extras(), reason="the node image has every image's layers already")
def test_layers_that_no_node_had_were_sent(cluster: Cluster, mirror: Path) -> None:
    assert "200 blob " in mirror.read_text()


def test_every_chart_comes_from_the_mirror(
    cluster: Cluster, mirror: Path, wanted: dict[str, str]
) -> None:
    asked = set(mirror.read_text().splitlines())
    assert {"cilium", "openstack-cinder-csi", "metrics-server", "snapshot-controller"} <= set(
        wanted
    )
    files = [f"{name}-{version}.tgz" for name, version in wanted.items()]
    assert [each for each in files if f"200 chart {each}" not in asked] == []


def test_a_chart_that_the_mirror_lacks_is_refused_before_anything_changes(
    cluster: Cluster, addons: dict[str, Any]
) -> None:
    cluster.stack.configure({"addons": {**addons, MISSING: {"enabled": True}}})
    refused = cluster.stack.pulumi("preview", check=False, capture=True)
    cluster.stack.configure({"addons": addons})
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert f"{URL}/charts/index.yaml lists no {MISSING} {versions.KURED_CHART}" in said
    assert "disable these add-ons" in said
    assert cluster.up() == {}


def test_images_get_their_usual_names_and_still_come_from_the_mirror(
    cluster: Cluster, addons: dict[str, Any]
) -> None:
    # A kubelet asks a registry for an image that it once pulled under another name.
    usual = {key: value for key, value in addons.items() if key != "imageRegistry"}
    cluster.up(addons=usual, registryMirrors={"_default": [URL]})
    until(
        lambda: not [each for each in images(cluster) if each.startswith(f"{REGISTRY}/")],
        "the end of the last pods with the other names",
        180,
    )
    cluster.wait_for_pods(300)
    assert cluster.nodes() == {"mirror-control-plane-0": True, "mirror-worker-0": True}
    assert cluster.up() == {}


def test_destroy_leaves_the_project_empty(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}
