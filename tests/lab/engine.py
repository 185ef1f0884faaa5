"""A Pulumi program of the tests, run by the real CLI and plugins, inside `lab run`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.quiet import home
from lab.last_update import LAST_UPDATE, changes
from lab.paths import PROJECT, ensure
from tests.lab import own_backend

NAME = "engine"
PROGRAMS = Path(__file__).with_name("programs")


class Program:
    """One stack of a program in `programs`, with a backend and a home folder of its own."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.said = ""
        self._destroyed = False
        self._name = name
        self._folder = ensure(folder / "program")
        self._config = self._folder / f"Pulumi.{NAME}.yaml"
        self._environment = own_backend.environment(
            {
                "PYTHONPATH": str(PROJECT),
                "PULUMI_HOME": str(home(folder)),
                "PULUMI_BACKEND_URL": f"file://{ensure(folder / 'state')}",
                "PULUMI_STACK": NAME,
                **environment,
            }
        )
        shutil.copy(PROGRAMS / name / "__main__.py", self._folder)
        (self._folder / "Pulumi.yaml").write_text(
            yaml.safe_dump({"name": name, "runtime": "python"})
        )
        self.pulumi("stack", "init", NAME)

    def configure(self, **keys: object) -> None:
        """Set these keys of the program and keep the others."""
        document = yaml.safe_load(self._config.read_text()) or {}
        config = document.setdefault("config", {})
        config.update({f"{self._name}:{key}": value for key, value in keys.items()})
        self._config.write_text(yaml.safe_dump(document))

    def pulumi(self, *words: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the CLI; it must succeed, or with `ok=False` fail."""
        result = subprocess.run(
            ["pulumi", *words, "--non-interactive"],
            cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = result.stdout + result.stderr
        assert (result.returncode == 0) == ok, f"pulumi {' '.join(words)}:\n{said}"
        return result

    def up(self, *words: str, ok: bool = True) -> dict[str, int]:
        """Run `pulumi up`; returns operation -> number of resources; `said` is the output."""
        result = self.pulumi("up", "--yes", "--skip-preview", "--suppress-outputs", *words, ok=ok)
        self.said = result.stdout + result.stderr
        return changes(self.pulumi(*LAST_UPDATE).stdout)

    def destroy(self) -> None:
        """Run `pulumi destroy`, once."""
        if not self._destroyed:
            self.pulumi("destroy", "--yes", "--skip-preview")
        self._destroyed = True

    def outputs(self) -> dict[str, Any]:
        """Every output, with secrets in plain text."""
        text = self.pulumi("stack", "output", "--json", "--show-secrets").stdout
        found: dict[str, Any] = json.loads(text)
        return found
