"""Kubeconfigs that the Kubernetes provider leaves in the folder for temporary files."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from pathlib import Path

import pulumi
import yaml

_BEGUN = time.time()
# Seconds.
_LONGEST_RUN = 24 * 60 * 60


def remove_at_exit(kubeconfig: pulumi.Output[str]) -> None:
    """Remove the provider's copies of this kubeconfig when the program ends.

    Each time it starts, the provider writes one for Helm, and never removes it. When the program
    ends, all charts have been rendered.
    """

    def remember(text: str) -> None:
        # One is enough where a process runs several programs, as tests do.
        atexit.unregister(remove)
        atexit.register(remove, text)

    kubeconfig.apply(remember)


def remove(kubeconfig: str) -> None:
    """Remove every copy with the same user and server that this run has made, or one long ago.

    Another update of the stack may be at work, and reads its own until it ends.
    """
    read = yaml.safe_load(kubeconfig)
    user, server = read["users"][0]["name"], read["clusters"][0]["cluster"]["server"]
    # As Go chooses the folder.
    for path in Path(os.environ.get("TMPDIR") or "/tmp").glob("kubeconfig*"):  # noqa: S108
        # Others may have files of this name as well, or remove this one.
        with contextlib.suppress(OSError):
            if time.time() - _LONGEST_RUN < path.stat().st_mtime < _BEGUN:
                continue
            text = path.read_text(errors="replace")
            if f"name: {user}\n" in text and f"server: {server}\n" in text:
                path.unlink()
