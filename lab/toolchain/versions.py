"""Wanted versions: those of the Python packages that the program pins."""

from __future__ import annotations

import re
from pathlib import Path

from lab.errors import LabError
from lab.paths import PROJECT

GO = Path(__file__).resolve().parent / "go"
REQUIREMENTS = PROJECT / "requirements.txt"


def pins() -> dict[str, str]:
    """Every `name==version` of requirements.txt."""
    found = re.findall(r"^([\w.-]+)==([\w.+-]+)", REQUIREMENTS.read_text(), re.MULTILINE)
    return {name.lower(): version for name, version in found}


def sdk() -> str:
    """Version of Pulumi's Python SDK, which is also that of the fitting official CLI."""
    return wanted("pulumi")


def plugins() -> dict[str, str]:
    """Plugins that the program's packages need, with their versions."""
    return {
        name.removeprefix("pulumi-"): version
        for name, version in pins().items()
        if name.startswith("pulumi-")
    }


def wanted(name: str) -> str:
    version = pins().get(name)
    if version is None:
        raise LabError(f"{REQUIREMENTS} has no line `{name}==VERSION`: add it")
    return version


def of_module(folder: str, module: str) -> str:
    """Version of a Go module, without the v, in a build folder's go.mod."""
    text = (GO / folder / "go.mod").read_text()
    match = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", text, re.MULTILINE)
    if match is None:
        raise LabError(f"{GO / folder / 'go.mod'} does not require {module}: add it")
    return match[1]


def as_tuple(version: str) -> tuple[int, ...]:
    """Numbers of a version, for comparison."""
    return tuple(int(n) for n in re.findall(r"\d+", version.split("-")[0])[:3])
