"""Measure the very first start: everything from package registries, nothing cached. Needs root.

The caches of the lab, Go, pip and Pulumi are in a new folder, which is removed at the end; the
machine's own caches stay as they are. Only Debian packages are installed for good; the output
names them. Takes half an hour on two processors. A machine has room for one lab: take a running
one down first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figures, end_cleanly, seconds
from lab import cache
from lab.cloud import install, namespace
from lab.console import say, step
from lab.errors import LabError
from lab.paths import CACHE, PROJECT

# Needed while it builds; at the end the caches are trimmed.
LEAST_FREE = 40_000_000_000
AT_MOST_MINUTES = 60
AT_MOST_GB = 20
# The smallest cluster: one of each.
STEPS = (
    ("tool chain", ("toolchain", "--build")),
    ("cloud", ("cloud", "up")),
    ("programs and images", ("image",)),
    ("cluster of three servers", ("up", "--gateways=1", "--control-planes=1", "--workers=1")),
)


def environment(folder: Path) -> dict[str, str]:
    """Environment with every cache in `folder`; Go's two are in the lab's own."""
    return {
        **os.environ,
        "OPENSTACK_KUBERNETES_LAB_CACHE": str(folder / "lab"),
        "PIP_CACHE_DIR": str(folder / "pip"),
        # Other programs that follow the XDG standard.
        "XDG_CACHE_HOME": str(folder / "xdg"),
        "PULUMI_HOME": str(folder / "pulumi"),
        # Go's checksum database.
        "GOPATH": str(folder / "go"),
    }


def check(folder: Path) -> None:
    """Refuse what would spoil the measurement, before an hour is spent."""
    if namespace.running():
        raise LabError("a lab is running: take it down first (`.venv/bin/python -m lab down`)")
    if folder.exists():
        raise LabError(f"{folder} is there already: remove it, or choose another with --folder")
    free = shutil.disk_usage(folder.parent).free
    if free < LEAST_FREE:
        raise LabError(
            f"{free / 1e9:.0f} GB are free below {folder.parent}, but building everything needs "
            f"{LEAST_FREE / 1e9:.0f}: choose a folder on a larger disk with --folder"
        )


def lab(words: Sequence[str], folder: Path) -> None:
    """Run one command of the lab with the new caches."""
    command = [sys.executable, "-m", "lab", *words]
    subprocess.run(command, cwd=PROJECT, env=environment(folder), check=True)


def measure(folder: Path, figures: Figures) -> None:
    """Measure each step, their sum, and the disk space that they leave in use."""
    total = 0.0
    for what, words in STEPS:
        with step(what):
            taken = seconds(lambda words=words: lab(words, folder))  # type: ignore[misc]
        figures.add(f"cold: {what}", taken / 60, "min")
        total += taken
    figures.add("cold: everything", total / 60, "min", AT_MOST_MINUTES)
    lab(["down"], folder)
    figures.add("disk left behind", cache.size(folder) / 1e9, "GB", AT_MOST_GB)


def main(words: Sequence[str] | None = None) -> None:
    """Measure; whatever happens, the new lab is taken down and its folder is removed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder",
        type=Path,
        default=CACHE.with_name(f"{CACHE.name}-cold"),
        help="the new folder for the caches (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="do not remove the folder")
    parser.add_argument("--plan", action="store_true", help="only print what would be done")
    arguments = parser.parse_args(words)
    folder: Path = arguments.folder.absolute()
    if arguments.plan:
        plan(folder)
        return
    end_cleanly()
    try:
        check(folder)
    except LabError as error:
        sys.exit(f"bench: {error}")
    missing = install.missing_packages()
    say(f"Debian packages that are not installed yet: {' '.join(missing) or 'none'}")
    with Figures() as figures:
        try:
            measure(folder, figures)
        finally:
            try:
                lab(["down"], folder)
            finally:
                if not arguments.keep:
                    shutil.rmtree(folder, ignore_errors=True)


def plan(folder: Path) -> None:
    """Print the commands that do the same by hand."""
    for name, value in environment(folder).items():
        if os.environ.get(name) != value:
            print(f"export {name}={value}")
    for _, command in STEPS:
        print(f"time {sys.executable} -m lab {' '.join(command)}")
    print(f"{sys.executable} -m lab down; du -sh {folder}; rm -r {folder}")


if __name__ == "__main__":
    main()
