"""Pulumi's CLI and its Python language host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from lab.console import say
from lab.gobuild import build, module_folder
from lab.paths import BIN, ensure
from lab.toolchain import download, files, versions

CLI = "github.com/pulumi/pulumi/pkg/v3"
HOST = "github.com/pulumi/pulumi/sdk/v3"
VERSION_FLAG = f"-X {HOST}/go/common/version.Version=v"
# One folder with all programs, with the same name for every version.
PROGRAMS = BIN / "pulumi-programs"


def installed() -> Path | None:
    """Folder of a `pulumi` on PATH that can run this program, if there is one.

    Its Python language host must be on PATH too. A version older than the one that the lab builds
    does not count, because it has not been tried.
    """
    path = os.pathsep.join(
        folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder != str(PROGRAMS)
    )
    program = shutil.which("pulumi", path=path)
    if program is None or shutil.which("pulumi-language-python", path=path) is None:
        return None
    result = subprocess.run([program, "version"], capture_output=True, text=True, timeout=60)
    match = re.match(r"v(\d+\.\d+\.\d+)", result.stdout)
    if match is None or versions.as_tuple(match[1]) < versions.as_tuple(oldest()):
        return None
    return Path(program).parent


def oldest() -> str:
    return versions.of_module("pulumi", CLI)


def folder() -> Path | None:
    """Folder that has to be on PATH: that of a suitable installed `pulumi`, else the lab's."""
    if (found := installed()) is not None:
        return found
    return PROGRAMS if (PROGRAMS / "pulumi").exists() else None


def ensure_installed(*, offline: bool) -> Path:
    """Find, download or build the CLI with its language host; returns their folder."""
    if (found := installed()) is not None:
        return found
    release = BIN / f"pulumi-release-{versions.sdk()}"
    if not offline and not release.is_dir() and download.reachable(versions.sdk()):
        try:
            download.cli(versions.sdk(), ensure(BIN) / release.name)
        except download.UnreachableError as error:
            say(f"Pulumi's release cannot be downloaded ({error}): building it")
    files.replace_folder(PROGRAMS, _released(release) if release.is_dir() else _built())
    return PROGRAMS


def _released(release: Path) -> list[Path]:
    return [
        release / n for n in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    ]


def _built() -> list[Path]:
    pulumi = build(
        "pulumi",
        versions.GO / "pulumi",
        {"pulumi": f"{CLI}/cmd/pulumi"},
        ldflags=[f"{VERSION_FLAG}{oldest()}"],
    )
    # The last version of the SDK's module that still holds the language host.
    host_module = versions.GO / "language-python"
    host = build(
        "pulumi-language-python",
        host_module,
        {"pulumi-language-python": f"{HOST}/python/cmd/pulumi-language-python"},
        ldflags=[f"{VERSION_FLAG}{versions.of_module('language-python', HOST)}"],
    )
    script = host / "pulumi-language-python-exec"
    if not script.exists():
        source = module_folder(host_module, HOST) / "python" / "cmd" / script.name
        files.copy_program(source, script)
    files.remove_others(pulumi)
    files.remove_others(host)
    return [pulumi / "pulumi", host / "pulumi-language-python", script]
