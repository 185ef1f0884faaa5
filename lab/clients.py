"""The commands that an operator uses beside the lab's own: kubectl and pulumi."""

from __future__ import annotations

import os

from lab.paths import CACHE, ensure

FOLDER = CACHE / "clients"


def link_kubectl() -> None:
    """Put the kubectl of the cluster's release into the folder; builds it where it is missing."""
    from lab.image import programs, versions

    ensure(FOLDER)
    link = FOLDER / "kubectl"
    link.unlink(missing_ok=True)
    link.symlink_to(programs.kubernetes(versions.KUBERNETES) / "kubectl")


def path(value: str) -> str:
    """PATH with those commands behind the user's own, and the program's Python before them.

    The language host that the lab builds takes the `python` that comes first.
    """
    from lab import toolchain
    from lab.toolchain import cli

    pulumi = cli.folder()
    before = [str(toolchain.virtual_environment() / "bin")]
    behind = [str(FOLDER), *([str(pulumi)] if pulumi else [])]
    return os.pathsep.join([*before, value, *behind])
