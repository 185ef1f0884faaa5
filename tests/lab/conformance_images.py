"""The images of Kubernetes' conformance tests, from its module and from Debian packages.

They are not the released ones, so what they show is no certificate.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.console import step
from lab.image import base, debian, oci
from lab.image.oci import Image, Layer, LayerWriter
from lab.paths import CACHE, ensure
from tests.conformance import programs
from tests.lab import upstream_busybox

# What agnhost's own image has of Alpine Linux, and what the tests of names call.
PACKAGES = (
    "base-files", "base-passwd", "bash", "bind9-dnsutils", "busybox-static", "ca-certificates",
    "coreutils", "curl", "dash", "diffutils", "findutils", "grep", "hostname", "iproute2",
    "libc-bin", "mawk", "mount", "netbase", "netcat-openbsd", "procps", "sed", "util-linux",
)  # fmt: skip
# Debian's alternatives system makes the first two.
# The last one as in Alpine Linux.
LINKS = {"usr/bin/awk": "mawk", "usr/bin/nc": "nc.openbsd", "usr/bin/wget": "busybox"}
ROOT, ROOT_GROUP = "root:x:0:0::/root:/bin/sh\n", "root:x:0:\n"
# The users of agnhost's own image.
USERS = f"{ROOT}user-defined-in-image:x:1000:1000::/tmp:/bin/sh\n"
GROUPS = (
    f"{ROOT_GROUP}user-defined-in-image:x:1000:\n"
    "group-defined-in-image:x:50000:user-defined-in-image\n"
)
# A test of image volumes looks for the name of the released image's system in this file.
OS_RELEASE = 'PRETTY_NAME="Debian in place of Alpine Linux"\n'
IMAGES = "k8s.io/kubernetes/test/images"


def archive(version: str, folder: Path) -> Path:
    """Write the images into an archive; `folder` is that of the tests' programs."""
    recipe = b"".join(Path(str(each.__file__)).read_bytes() for each in (upstream_busybox, debian))
    recipe += Path(__file__).read_bytes()
    target = folder / f"images-{hashlib.sha256(recipe).hexdigest()[:12]}.tar"
    if not target.exists():
        wanted = listed(programs.build(version, folder) / programs.E2E)
        with step(f"write the images of the conformance tests: {target}"):
            oci.write_archive(_images(version, folder, wanted), target)
    return target


def listed(e2e: Path) -> list[str]:
    """Every image that some test names."""
    result = subprocess.run([e2e, "--list-images"], check=True, capture_output=True, text=True)
    return result.stdout.split()


def names(wanted: Sequence[str], image: str) -> list[str]:
    """The full names of an image: agnhost and nginx have two tags."""
    prefix = f"registry.k8s.io/e2e-test-images/{image}:"
    return sorted({each for each in wanted if each.startswith(prefix)})


def _images(version: str, folder: Path, wanted: Sequence[str]) -> Iterator[Image]:
    layers = ensure(folder / "layers")

    def layer(*files: tuple[str, Path, int]) -> Layer:
        writer = LayerWriter(layers)
        for name, source, mode in files:
            writer.add(name, source, mode)
        return writer.close()

    def built(name: str, package: str) -> Path:
        return programs.program(folder, name, package)

    def tagged(image: str, parts: Sequence[Layer], entrypoint: Sequence[str] = (),
               command: Sequence[str] = (), user: str = "") -> Iterator[Image]:  # fmt: skip
        for name in names(wanted, image):
            # Without a difference both tags would be one image, which has one name on a node.
            labels = {"org.opencontainers.image.title": name}
            yield Image(
                name=name, layers=parts, entrypoint=entrypoint, command=command, user=user,
                labels=labels,
            )  # fmt: skip

    agnhost = built("agnhost", f"{IMAGES}/agnhost")
    nnp = built("nnp", f"{IMAGES}/nonewprivs")
    sample = built("sample-apiserver", "k8s.io/sample-apiserver")
    kubernetes = programs.source(folder) / "test/images"
    busybox = upstream_busybox.layer(folder)
    # One at a time: those of a folder have one name until they are closed.
    users = LayerWriter(layers)
    # No name for a group that a test sets: `ls` would show that one.
    users.write("etc/passwd", ROOT)
    users.write("etc/group", ROOT_GROUP)
    users.folder("tmp", 0o1777)
    small = [busybox, users.close()]
    tools = _debian(layers)
    more = LayerWriter(layers)
    more.write("etc/passwd", USERS)
    more.write("etc/group", GROUPS)
    more.add("agnhost", agnhost, 0o755)
    more.link("agnhost-2", "agnhost")
    more.folder("uploads")
    for name in ("localhost.crt", "localhost.key"):
        more.add(name, kubernetes / "agnhost/porter" / name, 0o644)
    base_image, start = [tools, more.close()], ["/agnhost"]

    yield from tagged("agnhost", base_image, start, ["pause"])
    for cat in ("kitten", "nautilus"):
        pictures = LayerWriter(layers)
        for each in (f"{cat}.jpg", "data.json"):
            pictures.add(each, kubernetes / cat / "html" / each, 0o644)
        pictures.write("etc/os-release", OS_RELEASE)
        yield from tagged(cat, [*base_image, pictures.close()], start, ["test-webserver"])
    yield from tagged("glibc-dns-testing", [tools])
    yield from tagged("busybox", small, command=["sh"])
    yield from tagged("nonroot", small, command=["sh"], user="1234")
    web = LayerWriter(layers)
    web.write("usr/share/nginx/html/index.html", "<h1>Welcome to nginx!</h1>\n")
    serve = ["httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"]
    yield from tagged("nginx", [*small, web.close()], command=serve)
    setuid = layer(("usr/local/bin/nnp", nnp, 0o4755))
    yield from tagged("nonewprivs", [*small, setuid], command=["/usr/local/bin/nnp"])
    api = layer(("sample-apiserver", sample, 0o755))
    yield from tagged("sample-apiserver", [*small, api], ["/sample-apiserver"])


def _debian(layers: Path) -> Layer:
    """The packages' files, in a layer in this folder."""
    scratch = CACHE / "images" / ".conformance"
    shutil.rmtree(scratch, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", base.rootfs(), scratch], check=True)
    try:
        debian._install(scratch, PACKAGES)
        made = debian._layer(scratch, debian._closure(scratch, PACKAGES), links=LINKS)
    finally:
        shutil.rmtree(scratch)
    # Elsewhere, also on another file system: layers that no archive of the lab has are deleted.
    kept = layers / made.digest
    shutil.move(made.path, kept)
    return Layer(kept, made.digest, made.size)
