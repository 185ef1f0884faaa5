"""The program of the last release, checked out with Python packages of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from lab.paths import PROJECT
from lab.stack import Stack
from lab.toolchain import plugins

COMMIT = Path(__file__).with_name("released.txt").read_text().strip()


class ReleasedProgram:
    """A folder with the program of the last release and its virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv = folder / ".venv"
        archive = subprocess.run(
            ["git", "archive", COMMIT], cwd=PROJECT, capture_output=True, check=False
        )
        assert archive.returncode == 0, (
            f"the history here does not reach back to the last release, {COMMIT}:"
            f" `git fetch --unshallow` brings it: {archive.stderr.decode()}"
        )
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
        requirements = folder / "requirements.txt"
        subprocess.run([sys.executable, "-m", "venv", self.venv], check=True)
        install = ("-m", "pip", "install", "--quiet", "-r", requirements)
        subprocess.run([self.python, *install], check=True)
        pins = re.findall(r"^pulumi-([\w-]+)==([\w.]+)", requirements.read_text(), re.MULTILINE)
        missing = [
            f"{name} {version}" for name, version in pins if not plugins.origin(name, version)
        ]
        assert not missing, (
            f"the last release needs the plugins {', '.join(missing)}:"
            " run `.venv/bin/python -m lab toolchain` in a checkout of it"
        )

    @property
    def python(self) -> Path:
        """The interpreter that has the release's packages."""
        return self.venv / "bin/python"

    def settings(self, **size: Any) -> dict[str, Any]:
        """The keys that the release's own lab sets; the promise is that they keep working."""
        program = (
            "import json, sys; from lab import settings;"
            "print(json.dumps(settings.cluster(**json.loads(sys.argv[1]))))"
        )
        result = subprocess.run(
            [self.python, "-c", program, json.dumps(size)],
            cwd=self.folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        keys: dict[str, Any] = json.loads(result.stdout)
        return keys


class ReleasedStack(Stack):
    """A stack that the released program runs on; its state and configuration are the same."""

    def __init__(self, name: str, settings: Mapping[str, Any], program: ReleasedProgram) -> None:
        self._program = program
        super().__init__(name, settings)

    def command(self, *arguments: str) -> list[str]:
        """The CLI's command line, in the folder of the released program."""
        return [*super().command(*arguments), "--cwd", str(self._program.folder)]

    def environment(self) -> dict[str, str]:
        """The CLI's environment, with the released program's Python first on PATH."""
        usual = super().environment()
        return {
            **usual,
            "PATH": f"{self._program.venv / 'bin'}:{usual['PATH']}",
            "VIRTUAL_ENV": str(self._program.venv),
        }


class ReleasedCluster(Cluster):
    """A cluster that the released program makes."""

    def __init__(self, name: str, settings: Mapping[str, Any], program: ReleasedProgram) -> None:
        self.stack = ReleasedStack(name, {"clusterName": name, **settings}, program)
        self.name = name
        self.kubeconfig = self.stack.folder / "kubeconfig"
