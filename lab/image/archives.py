"""The container images of a cluster, made from the built programs and written as archives."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from lab import object_store as versitygw
from lab.console import step
from lab.image import base, debian, oci, programs, versions
from lab.image.oci import Image, Layer, LayerWriter
from lab.paths import CACHE, ensure

ARCHIVES = CACHE / "images"
# Archives that somebody put here, with any names: nothing in the project needs them.
FETCHED = ARCHIVES / "fetched"
TEST_IMAGE = "docker.io/lab/busybox:1"
# Image, tag, folder of the module, program in the image, version inside.
_OPERATOR = "quay.io/prometheus-operator"
_ADDONS = (
    ("quay.io/prometheus/prometheus", versions.PROMETHEUS[0],
     "prometheus", "bin/prometheus", versions.PROMETHEUS[1]),
    ("quay.io/prometheus/node-exporter", versions.NODE_EXPORTER[0],
     "node-exporter", "bin/node_exporter", versions.NODE_EXPORTER[1]),
    (f"{_OPERATOR}/prometheus-operator", versions.PROMETHEUS_OPERATOR,
     "prometheus-operator", "bin/operator", versions.PROMETHEUS_OPERATOR),
    (f"{_OPERATOR}/prometheus-config-reloader", versions.PROMETHEUS_OPERATOR,
     "prometheus-operator", "bin/prometheus-config-reloader", versions.PROMETHEUS_OPERATOR),
    ("registry.k8s.io/kube-state-metrics/kube-state-metrics", versions.KUBE_STATE_METRICS,
     "kube-state-metrics", "kube-state-metrics", versions.KUBE_STATE_METRICS),
    ("quay.io/prometheus/alertmanager", versions.ALERTMANAGER,
     "alertmanager", "bin/alertmanager", versions.ALERTMANAGER),
    ("docker.io/library/traefik", versions.TRAEFIK,
     "traefik", "traefik", versions.TRAEFIK),
)  # fmt: skip
# What an image without Debian below it still needs: names for its users, trusted certificates.
_USERS = "root:x:0:0::/:/nologin\nnobody:x:65534:65534::/:/nologin\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"


def kubernetes(version: str) -> Path:
    """The images that `kubeadm config images list` names for this release, in one archive."""
    built = {
        "": programs.kubernetes(version),
        "etcd": programs.etcd(),
        "coredns": programs.coredns(),
    }
    names = _kubeadm_images(built[""] / "kubeadm", version)
    for name in names:
        if "/pause:" in name:
            # Now: later it might wait for the build lock while half an archive is written.
            programs.pause(name.rpartition(":")[2])

    def images() -> Iterable[Image]:
        for name in names:
            path, _, tag = name.rpartition(":")
            program = path.rpartition("/")[2]
            yield _KUBEADM_IMAGES.get(program, _component)(name, program, tag, built)

    return _archive(f"kubernetes-{version}", [*(f.name for f in built.values()), *names], images)


def openstack() -> Path:
    """The cloud controller manager, the Cinder CSI plugin and its sidecars."""
    folder = programs.cloud_provider_openstack()
    addons = programs.addons()

    def images() -> Iterable[Image]:
        tools, _ = debian.layers()
        for program, below in (
            ("openstack-cloud-controller-manager", [_static()]),
            ("cinder-csi-plugin", [tools]),
        ):
            yield Image(
                name=f"registry.k8s.io/provider-os/{program}:{versions.CLOUD_PROVIDER_OPENSTACK}",
                layers=[*below, _layer({f"bin/{program}": folder / program})],
                command=[f"/bin/{program}"],
            )

        for program, (tag, inside) in versions.CSI_SIDECARS.items():
            yield Image(
                name=f"registry.k8s.io/sig-storage/{program}:{tag}",
                layers=[_static(), _layer({program: addons / program})],
                entrypoint=[f"/{program}"],
                labels=_really(inside),
            )
        for path, (tag, inside) in (
            ("sig-storage/snapshot-controller", versions.SNAPSHOT_CONTROLLER),
            ("metrics-server/metrics-server", versions.METRICS_SERVER),
        ):
            program = path.rpartition("/")[2]
            yield Image(
                name=f"registry.k8s.io/{path}:{tag}",
                layers=[_static(), _layer({program: addons / program})],
                entrypoint=[f"/{program}"],
                user="65534:65534",
                labels=_really(inside),
            )

    return _archive("openstack", [folder.name, addons.name], images)


def cilium() -> Path:
    """Cilium's agent and its operator, with the scripts and BPF sources of its module."""
    folder = programs.cilium()

    def images() -> Iterable[Image]:
        source = programs.source("cilium", "github.com/cilium/cilium")
        agent = LayerWriter(debian.LAYERS)
        for program in ("cilium-agent", "cilium-dbg", "cilium-health-responder", "cilium-mount",
                        "cilium-sysctlfix"):  # fmt: skip
            agent.add(f"usr/bin/{program}", folder / program)
        agent.add("opt/cni/bin/cilium-cni", folder / "cilium-cni")
        for script in ("images/cilium/init-container.sh", "plugins/cilium-cni/install-plugin.sh",
                       "plugins/cilium-cni/cni-uninstall.sh"):  # fmt: skip
            agent.add(Path(script).name, source / script, mode=0o755)
        agent.tree("var/lib/cilium/bpf", source / "bpf", leave_out=("tests", "complexity-tests"))
        yield Image(
            name=f"quay.io/cilium/cilium:{versions.CILIUM}",
            layers=[*debian.layers(), agent.close()],
            command=["/usr/bin/cilium-dbg"],
            working_directory="/home/cilium",
        )
        operator = "cilium-operator-generic"
        yield Image(
            name=f"quay.io/cilium/operator-generic:{versions.CILIUM}",
            layers=[_static(), _layer({f"usr/bin/{operator}": folder / operator})],
            command=[f"/usr/bin/{operator}"],
        )

    return _archive("cilium", [folder.name], images)


def addons() -> Path:
    """Images of the optional add-ons: Prometheus and what belongs to it, Traefik."""
    folders = {**programs.monitoring(), "traefik": programs.traefik()}

    def images() -> Iterable[Image]:
        for path, tag, module, program, inside in _ADDONS:
            layer = _layer({program: folders[module] / program.rpartition("/")[2]})
            yield Image(
                name=f"{path}:{tag}",
                layers=[_static(), layer],
                entrypoint=[f"/{program}"],
                user="65534:65534",
                labels=_really(inside),
            )

    return _archive("addons", [folder.name for folder in folders.values()], images)


def python() -> Path:
    """Python, which the programs of CronJobs run in."""

    def images() -> Iterable[Image]:
        yield Image(
            name=f"docker.io/library/python:{versions.PYTHON}",
            layers=[debian.python()],
            command=["python3"],
            labels=_really("Debian's"),
        )

    return _archive("python", [versions.PYTHON], images)


def object_store() -> Path:
    """versitygw with a shell, as its official image has one."""
    program = versitygw.program()

    def images() -> Iterable[Image]:
        name = "versitygw"
        yield Image(
            name=f"ghcr.io/versity/{name}:{versions.VERSITYGW}",
            layers=[debian.busybox(), _static(), _layer({f"usr/local/bin/{name}": program})],
            entrypoint=[f"/usr/local/bin/{name}"],
        )

    return _archive("object-store", [program.parent.name], images)


def fetched() -> list[Path]:
    """Archives of what no module holds, from whoever has them."""
    return sorted(FETCHED.glob("*.tar"))


def tests() -> Path:
    """A small image with a shell, a web server and network clients, for test pods."""

    def images() -> Iterable[Image]:
        yield Image(name=TEST_IMAGE, layers=[debian.busybox(), _static()], command=["sh"])

    return _archive("tests", [], images)


def _component(name: str, program: str, tag: str, built: Mapping[str, Path]) -> Image:
    layer = _layer({f"usr/local/bin/{program}": built[""] / program})
    below = debian.layers()[0] if program == "kube-proxy" else _static()
    return Image(name=name, layers=[below, layer], command=[f"/usr/local/bin/{program}"])


def _pause(name: str, program: str, tag: str, built: Mapping[str, Path]) -> Image:
    folder = programs.pause(tag)
    return Image(
        name=name, layers=[_layer({"pause": folder / "pause"})], entrypoint=["/pause"],
        user="65535:65535",
    )  # fmt: skip


def _coredns(name: str, program: str, tag: str, built: Mapping[str, Path]) -> Image:
    layer = _layer({"coredns": built["coredns"] / "coredns"})
    return Image(
        name=name, layers=[_static(), layer], entrypoint=["/coredns"],
        labels=_really(versions.COREDNS),
    )  # fmt: skip


def _etcd(name: str, program: str, tag: str, built: Mapping[str, Path]) -> Image:
    files = {f"usr/local/bin/{path.name}": path for path in sorted(built["etcd"].iterdir())}
    return Image(
        name=name, layers=[_static(), _layer(files)], command=["/usr/local/bin/etcd"],
        labels=_really(versions.ETCD),
    )  # fmt: skip


_KUBEADM_IMAGES: dict[str, Callable[[str, str, str, Mapping[str, Path]], Image]] = {
    "pause": _pause,
    "coredns": _coredns,
    "etcd": _etcd,
}


def _really(version: str) -> dict[str, str]:
    """The version inside: an older Kubernetes asks for an older tag and gets the same program."""
    return {"org.opencontainers.image.version": version}


def _kubeadm_images(kubeadm: Path, version: str) -> list[str]:
    result = subprocess.run(
        [kubeadm, "config", "images", "list", "--kubernetes-version", version],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return result.stdout.split()


def _static() -> Layer:
    writer = LayerWriter(debian.LAYERS)
    writer.write("etc/passwd", _USERS)
    writer.write("etc/group", _GROUPS)
    certificates = "etc/ssl/certs/ca-certificates.crt"
    writer.add(certificates, base.rootfs() / certificates)
    writer.folder("tmp", 0o1777)
    return writer.close()


def _layer(files: Mapping[str, Path]) -> Layer:
    writer = LayerWriter(debian.LAYERS)
    for name, source in files.items():
        writer.add(name, source, mode=0o755)
    return writer.close()


def _archive(name: str, inputs: list[str], images: Callable[[], Iterable[Image]]) -> Path:
    """Write the archive unless it is there already, made from the same inputs by the same code."""
    # The tags of most images are in versions.py.
    code = [Path(file).read_text() for file in (__file__, oci.__file__, versions.__file__)]
    text = "\0".join([*inputs, debian.key(), *code])
    target = ensure(ARCHIVES) / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.tar"
    if not target.exists():
        with step(f"write container images: {name}"):
            oci.write_archive(images(), target)
            for old in ARCHIVES.glob(f"{name}-????????????.tar"):
                if old != target:
                    old.unlink()
            _drop_layers()
    return target


def _drop_layers() -> None:
    """Layers of one program live in its archive only; Debian's are used by several archives."""
    kept = {layer.digest for layer in debian.layers()}
    for path in debian.LAYERS.iterdir():
        if path.is_file() and path.suffix != ".json" and path.name not in kept:
            path.unlink()
