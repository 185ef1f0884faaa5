"""Pulumi's CLI, as the operator runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from commands.errors import CommandError


class PulumiError(CommandError):
    """The CLI failed; the text holds its message, `output` and `said` what it wrote."""

    def __init__(self, text: str, output: str = "", said: str = "") -> None:
        super().__init__(text)
        self.output = output
        self.said = said


def pulumi(*arguments: str, stdin: str | None = None) -> str:
    """Run the CLI and return its standard output.

    Raises:
        PulumiError: if it failed, or is not there.
    """
    try:
        result = subprocess.run(  # noqa: S603 - the CLI, as the operator runs it
            ["pulumi", *arguments, "--non-interactive"],  # noqa: S607
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            # Whatever the locale is.
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise PulumiError("there is no program `pulumi` on the PATH: install Pulumi") from None
    if result.returncode != 0:
        said = result.stderr or result.stdout
        raise PulumiError(f"pulumi {' '.join(arguments)}: {said}", result.stdout, result.stderr)
    return result.stdout


def project() -> str:
    """The name of the project in this folder.

    Raises:
        CommandError: if there is no Pulumi.yaml.
    """
    try:
        text = Path("Pulumi.yaml").read_text()
    except FileNotFoundError:
        raise CommandError("there is no Pulumi.yaml here: run this in the checkout") from None
    name: str = yaml.safe_load(text)["name"]
    return name


def backend_url() -> str:
    """The URL of the backend, also of one whose states cannot be read."""
    url: str = json.loads(pulumi("whoami", "--json"))["url"]
    return url


def backend_place() -> str:
    """The backend, for people; that of a service is the same for each of its users."""
    url = backend_url()
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else url


def last_update(*arguments: str) -> Mapping[str, Any]:
    """Return the newest entry of a stack's history.

    It has `kind`, `result`, `startTime` and `endTime`, and is empty if there is none.
    """
    history: list[dict[str, Any]] = json.loads(
        pulumi("stack", "history", "--json", "--page-size", "1", *arguments)
    )
    return history[0] if history else {}
