"""Build the node image, its programs and container images, and put it into the lab's Glance."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

BASE_NAME = "debian-13"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which Kubernetes releases the image carries."""
    from lab.image import versions

    parser.add_argument(
        "--release", action="append", choices=versions.KUBERNETES_RELEASES, default=None,
        help="a release that the image carries; the first one named is the one installed, the "
        f"others are ready for an upgrade (default: {versions.KUBERNETES} alone)",
    )  # fmt: skip
    parser.add_argument(
        "--addons", action="store_true",
        help="also the images of add-ons that can be had here, as an image of its own name",
    )  # fmt: skip
    parser.add_argument(
        "--file-only", action="store_true", help="make the files, but do not put them into Glance"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the name of the image, or of the file."""
    from lab import cache
    from lab.image import charts, node, versions

    releases = arguments.release or [versions.KUBERNETES]
    if arguments.file_only:
        charts.export()
        print(node.build(releases, addons=arguments.addons))
        cache.trim()
    else:
        print(ensure(releases, addons=arguments.addons))
    return 0


def name(release: str, *, addons: bool = False) -> str:
    """What the node image is called in Glance."""
    return f"{BASE_NAME}-kubernetes-{release}" + ("-addons" if addons else "")


def ensure(releases: Sequence[str] = (), *, addons: bool = False) -> str:
    """Build what is missing, register it, and return the node image's name; the cloud is up."""
    from lab import cache
    from lab.image import base, charts, glance, node, versions
    from lab.paths import CACHE

    releases = releases or [versions.KUBERNETES]
    file = node.build(releases, addons=addons)
    charts.export()
    plain = CACHE / "image" / f"{base.rootfs().name}.qcow2"
    if not plain.exists():
        base.make_image(base.rootfs(), plain)
    # All that was built is in the image: what it was made of is not needed any more.
    cache.trim()
    glance.register(BASE_NAME, plain, {})
    called = name(releases[0], addons=addons)
    glance.register(called, file, {"kubernetes_versions": ",".join(releases)})
    return called
