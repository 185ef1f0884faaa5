"""Gateway API's conformance tests on a cluster whose registry has Traefik and the tests' images.

The lab cannot download charts: Traefik's must be in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import image, settings
from lab.cluster import Cluster, left_in_project
from lab.image import oci, programs
from lab.image.oci import Image, Layer, LayerWriter
from lab.image.versions import TRAEFIK
from lab.paths import ensure
from tests.conformance import gateway_api
from tests.conformance import programs as others
from tests.conformance.live import FOLDER
from tests.lab import needs
from tests.lab.registry import serving
from tests.lab.suites import passes

NEEDS = needs.Needs(("traefik",))

NOTE = "On the lab: servers are system containers, Traefik and the tests' server are built there."
ECHO, DNS = "registry.k8s.io/gateway-api/echo-basic", "registry.k8s.io/coredns/coredns"
USER = "65532:65532"


def crds() -> Path:
    """The CRDs that Traefik was built with; users install them themselves."""
    programs.traefik()
    return programs.source("traefik", gateway_api.API) / "config/crd/standard"


@pytest.fixture(scope="module")
def archive() -> Path:
    """Traefik's image, and those of the pods that the tests send requests to."""
    NEEDS.require()
    gateways = yaml.safe_load(next(crds().glob("*_gateways.yaml")).read_text())
    version = gateways["metadata"]["annotations"][gateway_api.BUNDLE_VERSION]
    folder = FOLDER / f"{gateway_api.NAME}-{version}"
    gateway_api.build(version, folder)
    # Whatever version of CoreDNS the tests name.
    servers = {
        ECHO: others.program(folder, "echo-basic", f"{gateway_api.TESTS}/echo-basic"),
        DNS: programs.coredns() / "coredns",
    }
    suite = others.source(folder, gateway_api.TESTS)
    texts = [file.read_text() for file in suite.rglob("*.yaml")]
    named = {
        name: program
        for image_name, program in servers.items()
        for text in texts
        for name in re.findall(rf"{re.escape(image_name)}:\S+", text)
    }
    traefik = (f"docker.io/library/traefik:{TRAEFIK}", programs.traefik() / "traefik")
    layers = ensure(folder / "layers")
    return oci.write_archive(
        (
            Image(name=name, layers=[layer(layers, program)], entrypoint=["/program"], user=USER,
                  labels={"org.opencontainers.image.title": name})
            for name, program in (traefik, *sorted(named.items()))
        ),
        folder / "images.tar",
    )  # fmt: skip


def layer(layers: Path, program: Path) -> Layer:
    """A layer with one program and a folder for its temporary files."""
    writer = LayerWriter(layers)
    writer.add("program", program, 0o755)
    writer.folder("tmp", 0o1777)
    return writer.close()


@pytest.fixture(scope="module")
def cluster(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two gateways, one control plane and two workers with Traefik; destroyed at the end."""
    keys = settings.cluster(image=image.ensure(), gateways=2, control_planes=1, workers=2)
    charts = needs.every_chart(tmp_path_factory.mktemp("charts"))
    addons = {**keys["addons"], "chartDirectory": str(charts)}
    with serving(archive, archive.with_name("asked")) as url:
        mirrors = {"registry.k8s.io": [url], "docker.io": [url]}
        made = Cluster("gatewayapi", {**keys, "registryMirrors": mirrors, "addons": addons})
        with made.running():
            made.kubectl("apply", "--server-side", "-f", str(crds()))
            made.up(addons={**addons, "ingress": {"enabled": True, "gatewayApi": True}})
            yield made


def test_the_suite_passes(cluster: Cluster) -> None:
    assert passes(cluster, gateway_api.NAME, NOTE)


def test_a_destroy_leaves_nothing(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}
