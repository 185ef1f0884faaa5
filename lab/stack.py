"""A Pulumi stack of the program on the lab's cloud, used through the CLI as a user would."""

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

from commands.private_file import write_private
from lab import toolchain
from lab.backend import PASSPHRASE, STACKS, environment
from lab.cloud import inside, namespace
from lab.errors import LabError
from lab.paths import PROJECT, ensure

PROJECT_NAME = "openstack-kubernetes"


class Stack:
    """One stack, with its state and its configuration in the lab's state folder.

    `config_file` puts the configuration elsewhere: next to Pulumi.yaml the CLI finds it by itself.
    """

    def __init__(
        self, name: str, settings: Mapping[str, Any], config_file: Path | None = None
    ) -> None:
        self.name = name
        self.folder = ensure(STACKS / name)
        self.config_file = config_file or self.folder / f"Pulumi.{name}.yaml"
        self._initialize()
        self.configure(settings)

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Set these keys and keep the others; None removes a key."""
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
            LabError: it failed (with `check`); the CLI has printed the reason.
        """
        return self._run(self.command(*arguments), check=check, capture=capture, timeout=timeout)

    def _run(
        self, command: list[str], *, check: bool, capture: bool, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            namespace.enter(command, folder=PROJECT),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.PIPE if capture else None,
            text=True,
            timeout=timeout,
        )
        if check and result.returncode != 0:
            said = f":\n{result.stdout}{result.stderr}" if capture else ""
            raise LabError(f"`{' '.join(command)}` failed{said}")
        return result

    def command(self, *arguments: str) -> list[str]:
        """The CLI's command line for this stack."""
        line = ["pulumi", *arguments, "--stack", self.name, "--non-interactive"]
        if arguments[0] in ("up", "preview", "refresh", "destroy", "config"):
            line += ["--config-file", str(self.config_file)]
        return line

    def environment(self) -> dict[str, str]:
        """The CLI's environment: this process's own, the cloud, the backend and the passphrase."""
        return {
            **os.environ,
            **inside.environment(),
            **environment(),
            **toolchain.environment(),
        }

    def outputs(self) -> dict[str, Any]:
        """Every output, with secrets in plain text."""
        text = self.pulumi("stack", "output", "--json", "--show-secrets", capture=True).stdout
        found: dict[str, Any] = json.loads(text)
        return found

    def resources(self, *, secrets: bool = False) -> list[dict[str, Any]]:
        """Every resource in the state, on request with secrets in plain text."""
        flags = ["--show-secrets"] if secrets else []
        text = self.pulumi("stack", "export", *flags, capture=True).stdout
        found: list[dict[str, Any]] = json.loads(text)["deployment"].get("resources") or []
        return found

    def write_kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig for clients inside the lab, with mode 0600."""
        write_private(path, self.outputs()["kubeconfig"])
        return path

    def _initialize(self) -> None:
        if not PASSPHRASE.exists():
            write_private(PASSPHRASE, secrets.token_urlsafe(32))
        known = json.loads(self._cli("stack", "ls", "--json").stdout)
        if any(stack["name"] == self.name for stack in known):
            if self.config_file.exists():
                return
            # An interrupted run left it; Pulumi refuses if it has resources.
            self._cli("stack", "rm", self.name, "--yes")
        # `stack init` writes the encryption salt next to a project file: give it one of its own.
        shutil.copy(PROJECT / "Pulumi.yaml", self.folder / "Pulumi.yaml")
        written = self.folder / f"Pulumi.{self.name}.yaml"
        self._cli("stack", "init", self.name, "--no-select", "--cwd", str(self.folder))
        if written != self.config_file:
            # The cache may be on another disk than the checkout.
            shutil.move(written, self.config_file)

    def _cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(["pulumi", *arguments, "--non-interactive"], check=True, capture=True)
