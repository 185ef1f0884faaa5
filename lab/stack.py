"""A Pulumi stack of the program against the lab's cloud, driven as a user would by the CLI."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab import toolchain
from lab.cloud import inside, namespace
from lab.errors import LabError
from lab.paths import PROJECT, STATE, ensure

PROJECT_NAME = "openstack-kubernetes"


class Stack:
    """One stack; its state and its configuration lie in the lab's state folder."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name = name
        self.folder = ensure(STATE / "stacks" / name)
        self.config_file = self.folder / f"Pulumi.{name}.yaml"
        self._passphrase = self.folder / "passphrase"
        self._initialise()
        self.configure(settings)

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Set these keys, keep the others; None removes a key."""
        document = yaml.safe_load(self.config_file.read_text()) or {}
        config = document.setdefault("config", {})
        for key, value in settings.items():
            full = key if ":" in key else f"{PROJECT_NAME}:{key}"
            if value is None:
                config.pop(full, None)
            else:
                config[full] = value
        self.config_file.write_text(yaml.safe_dump(document, sort_keys=False))

    def pulumi(
        self, *arguments: str, check: bool = True, capture: bool = False, timeout: float = 3600
    ) -> subprocess.CompletedProcess[str]:
        """Run the CLI on this stack inside the lab; `timeout` in seconds.

        Raises:
            LabError: it failed (with `check`); the CLI's own words are on standard error.
        """
        result = subprocess.run(
            self.command(*arguments),
            cwd=PROJECT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.PIPE if capture else None,
            text=True,
            timeout=timeout,
        )
        if check and result.returncode != 0:
            said = f":\n{result.stdout}{result.stderr}" if capture else ""
            raise LabError(f"pulumi {' '.join(arguments)} failed{said}")
        return result

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs the CLI inside the lab."""
        line = ["pulumi", *arguments, "--stack", self.name, "--non-interactive"]
        if arguments[0] in ("up", "preview", "refresh", "destroy", "config"):
            line += ["--config-file", str(self.config_file)]
        return namespace.enter(line, environment={})

    def environment(self) -> dict[str, str]:
        """What the CLI needs to find the cloud, the backend and the passphrase."""
        return {
            **os.environ,
            **inside.environment(),
            **toolchain.environment(),
            "PULUMI_BACKEND_URL": f"file://{ensure(self.folder / 'backend')}",
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(self._passphrase),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def outputs(self) -> dict[str, Any]:
        """Every output, secrets in the clear."""
        text = self.pulumi("stack", "output", "--json", "--show-secrets", capture=True).stdout
        found: dict[str, Any] = json.loads(text)
        return found

    def write_kubeconfig(self, path: Path) -> Path:
        """The kubeconfig for a client inside the lab, mode 0600."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as output:
            output.write(self.outputs()["kubeconfig"])
        return path

    def _initialise(self) -> None:
        if not self._passphrase.exists():
            self._passphrase.touch(mode=0o600)
            self._passphrase.write_text(secrets.token_urlsafe(32))
        if self.config_file.exists():
            return
        # `stack init` writes beside the project file, so it is given one of its own.
        shutil.copy(PROJECT / "Pulumi.yaml", self.folder / "Pulumi.yaml")
        self.pulumi("stack", "init", "--no-select", "--cwd", str(self.folder), capture=True)
        self.config_file.touch()
