"""The operator's commands in the lab's shell: kubectl and pulumi."""

from __future__ import annotations

import os

from lab.paths import CACHE, ensure

FOLDER = CACHE / "clients"


def link_kubectl() -> None:
    """Link the kubectl of the cluster's release into the folder; build it if it is missing."""
    from lab.image import programs, versions

    program = programs.kubernetes(versions.KUBERNETES) / "kubectl"
    link = ensure(FOLDER) / "kubectl"
    # Another command may be using it.
    partial = link.with_suffix(f".{os.getpid()}")
    partial.symlink_to(program)
    partial.rename(link)


def path(value: str) -> str:
    """Return `value` as a PATH with the program's Python before it and those commands after it.

    The language host that the lab builds runs the first `python` on PATH.
    """
    from lab import toolchain
    from lab.toolchain import cli

    pulumi = cli.folder()
    before = [str(toolchain.virtual_environment() / "bin")]
    behind = [str(FOLDER), *([str(pulumi)] if pulumi else [])]
    return os.pathsep.join([*before, value, *behind])
