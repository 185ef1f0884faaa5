"""The walk-through of docs/fleet.md: its commands, run in a checkout of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.cloud import namespace
from lab.cluster import Cluster
from lab.paths import PROJECT
from lab.stack import Stack
from tests.lab import own_backend
from tests.lab.object_store import ObjectStore

_, _SECTION = (PROJECT / "docs/fleet.md").read_text().split("\n## A walk-through\n")
STEPS: Mapping[str, str] = dict(
    re.findall(r"^### (.+?)\n.*?^```sh\n(.*?)^```$", _SECTION.split("\n## ")[0], re.M | re.S)
)
_ADD = ".venv/bin/python -m commands.fleet add"


class Walk:
    """A checkout whose stacks are in a bucket, and a shell in it."""

    def __init__(self, folder: Path, store: ObjectStore) -> None:
        self.folder = folder
        tracked = subprocess.run(
            ["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True
        )
        for name in tracked.stdout.splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, folder / name)
        (folder / ".venv").symlink_to(PROJECT / ".venv")
        query = f"endpoint={store.endpoint}&s3ForcePathStyle=true&region={store.region}"
        self.environment = own_backend.environment(
            {
                "PULUMI_BACKEND_URL": f"s3://{store.bucket}?{query}",
                "AWS_ACCESS_KEY_ID": store.access_key,
                "AWS_SECRET_ACCESS_KEY": store.secret_key,
            },
            cloud=True,
        )

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command there; returns its standard output, and if it may fail all that it said."""
        done = subprocess.run(
            namespace.enter(command, folder=self.folder),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert not check or done.returncode == 0, said
        return done.stdout if check else said

    def step(self, title: str, before_add: str = "", *, check: bool = True) -> str:
        """Run the commands of a step as they are written; returns what `run` does.

        Those that only watch are left out. `before_add` are the lab's own, which a cluster needs
        before it is given to the operator.
        """
        lines = [line for line in STEPS[title].splitlines() if not line.endswith(" --watch")]
        text = "\n".join(lines).replace(_ADD, f"{before_add}\n{_ADD}", 1)
        return self.run("bash", "-euo", "pipefail", "-c", text, check=check)


class _AdminStack(Stack):
    """The stack `admin`, which the walk-through initializes."""

    def __init__(self, walk: Walk, settings: Mapping[str, Any]) -> None:
        self._walk = walk
        super().__init__("admin", settings, walk.folder / "Pulumi.admin.yaml")

    def environment(self) -> dict[str, str]:
        """The environment of the walk-through."""
        return self._walk.environment

    def _initialize(self) -> None:
        self.config_file.write_text("{}")


class AdminCluster(Cluster):
    """The admin cluster of the walk-through."""

    def __init__(self, walk: Walk, settings: Mapping[str, Any]) -> None:
        self.stack = _AdminStack(walk, settings)
        self.name = self.stack.name
        self.kubeconfig = walk.folder / "kubeconfig"
