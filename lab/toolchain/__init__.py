"""Install Pulumi and its plugins: use those that are there, else download, else build them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lab import gobuild
from lab.console import say, step
from lab.errors import LabError
from lab.paths import PROJECT
from lab.toolchain import cli, plugins, versions


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lab toolchain`."""
    parser.add_argument(
        "--build", action="store_true", help="build what is missing, without trying to download it"
    )
    parser.add_argument(
        "--trim",
        action="store_true",
        help="empty Go's caches at the end: saves gigabytes, the next build downloads all again",
    )
    parser.add_argument(
        "--print-path", action="store_true", help="only print the PATH that pulumi needs"
    )


def run(arguments: argparse.Namespace) -> int:
    """Install what is missing, or print the PATH."""
    if arguments.print_path:
        print(environment()["PATH"])
        return 0
    ensure(offline=arguments.build)
    if arguments.trim:
        with step("empty Go's caches"):
            gobuild.trim(modules=True)
    return 0


def ensure(*, offline: bool = False) -> None:
    """Install `pulumi` and every plugin that is missing. A second call takes a second."""
    folder = cli.ensure_installed(offline=offline)
    say(f"pulumi: {folder / 'pulumi'}")
    # The plugin that takes minutes comes last: the others can be used while it is built.
    for name, version in sorted(versions.plugins().items(), key=lambda p: p[0] == "kubernetes"):
        plugins.ensure_installed(name, version, folder, offline=offline)
        say(f"plugin {name} {version}: {plugins.origin(name, version)}")


def environment() -> dict[str, str]:
    """Variables with which `pulumi` runs the program with the checkout's own Python.

    Add them to the caller's own environment: `{**os.environ, **environment()}`.
    The virtual environment comes first on PATH: the language host that the lab builds runs the
    first `python` there, whatever Pulumi.yaml says.
    """
    folder = cli.folder()
    if folder is None:
        raise LabError("pulumi is not installed yet: run `python -m lab toolchain`")
    venv = virtual_environment()
    path = [str(venv / "bin"), str(folder), *os.environ.get("PATH", "").split(os.pathsep)]
    return {
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "VIRTUAL_ENV": str(venv),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # All plugins are installed; looking for others would wait for servers out of reach.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def virtual_environment() -> Path:
    """Folder of the program's virtual environment: the checkout's, else the one in use."""
    for candidate in (PROJECT / ".venv", PROJECT / "venv", Path(sys.prefix)):
        if (candidate / "bin" / "python").exists() and any(
            candidate.glob("lib/python*/site-packages/pulumi")
        ):
            return candidate
    raise LabError(
        f"no virtual environment in {PROJECT} has Pulumi's packages: make one with"
        f" `python3 -m venv {PROJECT / '.venv'}` and install {versions.REQUIREMENTS.name} into it"
    )
