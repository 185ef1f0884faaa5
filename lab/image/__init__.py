"""Build the node image with programs and container images, and upload it to the lab's Glance."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

BASE_NAME = "debian-13"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what the image contains."""
    from lab.image import versions

    parser.add_argument(
        "--release", action="append", choices=versions.KUBERNETES_RELEASES, default=None,
        help="a Kubernetes release in the image, can be repeated; the first one is installed, the "
        f"others are ready for an upgrade (default: only {versions.KUBERNETES})",
    )  # fmt: skip
    parser.add_argument(
        "--addons", action="store_true",
        help="also include the images of optional add-ons; the node image's name ends in -addons",
    )  # fmt: skip
    parser.add_argument(
        "--file-only", action="store_true", help="make the files, but do not upload them to Glance"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the name of the image, or with --file-only the path of the file."""
    from lab.image import versions

    releases = arguments.release or [versions.KUBERNETES]
    if arguments.file_only:
        with _lock():
            print(_build(releases, addons=arguments.addons))
    else:
        print(ensure(releases, addons=arguments.addons))
    return 0


def name(release: str, *, addons: bool = False) -> str:
    """Name of the node image in Glance."""
    return f"{BASE_NAME}-kubernetes-{release}" + ("-addons" if addons else "")


def ensure(releases: Sequence[str] = (), *, addons: bool = False) -> str:
    """Build what is missing, upload it, and return the node image's name; needs the cloud up."""
    from lab import clients
    from lab.image import base, disk, glance, versions
    from lab.paths import CACHE

    releases = releases or [versions.KUBERNETES]
    with _lock():
        file = _build(releases, addons=addons)
        clients.link_kubectl()
        plain = CACHE / "image" / f"{base.rootfs().name}.qcow2"
        if not plain.exists():
            disk.make_image(base.rootfs(), plain)
        glance.register(BASE_NAME, plain, {})
        called = name(releases[0], addons=addons)
        glance.register(called, file, {"kubernetes_versions": ",".join(releases)})
    return called


def _lock() -> AbstractContextManager[None]:
    """Hold the lock of the images: two commands would write the same files."""
    from lab.exclusive import exclusive
    from lab.paths import CACHE

    return exclusive(CACHE / "image.lock", "another build of images")


def _build(releases: Sequence[str], *, addons: bool) -> Path:
    from lab import cache
    from lab.image import charts, node

    file = node.build(releases, addons=addons)
    charts.export()
    # Everything that was built is in the image, so its parts are no longer needed.
    cache.trim()
    return file
