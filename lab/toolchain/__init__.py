"""Put Pulumi and its plugins in place: what is installed, else downloaded, else built from Go."""

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
    """Describe the arguments of `lab toolchain`."""
    parser.add_argument(
        "--build", action="store_true", help="build what is missing, do not try to download it"
    )
    parser.add_argument(
        "--trim",
        action="store_true",
        help="at the end, empty Go's caches: saves gigabytes, the next build starts from nothing",
    )
    parser.add_argument(
        "--print-path", action="store_true", help="print the PATH that pulumi needs, do nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run `lab toolchain`."""
    if arguments.print_path:
        print(environment()["PATH"])
        return 0
    ensure(offline=arguments.build)
    if arguments.trim:
        with step("empty Go's caches"):
            gobuild.trim(modules=True)
    return 0


def ensure(*, offline: bool = False) -> None:
    """Make sure that `pulumi` and every plugin are there. A second call takes a second."""
    folder = cli.ensure_installed(offline=offline)
    say(f"pulumi: {folder / 'pulumi'}")
    # The one that takes minutes comes last: the others can be used while it is built.
    for name, version in sorted(versions.plugins().items(), key=lambda p: p[0] == "kubernetes"):
        plugins.ensure_installed(name, version, folder, offline=offline)
        say(f"plugin {name} {version}: {plugins.origin(name, version)}")


def environment() -> dict[str, str]:
    """What `pulumi` needs in its environment to run the program with the checkout's own Python.

    To be added to the caller's own environment, as `{**os.environ, **environment()}`.
    The virtual environment comes first on PATH: the language host that the lab builds takes the
    `python` it finds there, whatever Pulumi.yaml says.
    """
    folder = cli.folder()
    if folder is None:
        raise LabError("there is no pulumi yet: run `python -m lab toolchain`")
    venv = virtual_environment()
    path = [str(venv / "bin"), str(folder), *os.environ.get("PATH", "").split(os.pathsep)]
    return {
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "VIRTUAL_ENV": str(venv),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # All plugins are in place; a look for others would wait for servers out of reach.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def virtual_environment() -> Path:
    """The virtual environment with the program's packages: the checkout's, else the one in use."""
    for candidate in (PROJECT / ".venv", PROJECT / "venv", Path(sys.prefix)):
        if (candidate / "bin" / "python").exists() and any(
            candidate.glob("lib/python*/site-packages/pulumi")
        ):
            return candidate
    raise LabError(
        f"no virtual environment with Pulumi's packages in {PROJECT}: make one with"
        f" `python3 -m venv {PROJECT / '.venv'}` and install {versions.REQUIREMENTS.name} into it"
    )
