"""Programs of tests that others wrote, built from their Go modules at any version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

KUBERNETES = "k8s.io/kubernetes"
E2E, GINKGO = "e2e.test", "ginkgo"
# `go vet`, which belongs to a test's build, would take minutes.
TEST = ("test", "-c", "-vet=off")


class ConformanceError(Exception):
    """The reason why the tests cannot run; the message says what to do."""


def module(version: str, kubernetes: str) -> str:
    """Write a go.mod that needs Kubernetes, from Kubernetes' own.

    Its staging modules are folders of its repository, which the released module leaves out: each
    is replaced by the release that belongs to it.
    """
    staging = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", kubernetes, re.MULTILINE)
    go = re.findall(r"^(go \S+|godebug .*)$", kubernetes, re.MULTILINE)
    released = f"v0.{version.removeprefix('v').partition('.')[2]}"
    lines = [
        "module conformance.invalid/tests",
        *go,
        f"require {KUBERNETES} {version}",
        *(f"replace {path} => {path} {released}" for path in staging),
    ]
    return "\n\n".join(lines) + "\n"


def build(version: str, folder: Path) -> Path:
    """Build what is missing; returns the folder with the programs."""
    require(folder, f"{KUBERNETES}@{version}", lambda own: module(version, own))
    program(folder, E2E, f"{KUBERNETES}/test/e2e", *TEST)
    # The same release that the tests are written with: the two talk to each other.
    program(folder, GINKGO, "github.com/onsi/ginkgo/v2/ginkgo")
    return folder / "bin"


def require(folder: Path, wanted: str, write: Callable[[str], str]) -> None:
    """Write a go.mod that needs a module, from the module's own, unless it is there."""
    file = folder / "go.mod"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shown = json.loads(_go(folder, "mod", "download", "-json", wanted))
        file.write_text(write(Path(shown["Dir"], "go.mod").read_text()))


def program(folder: Path, name: str, package: str, *verb: str) -> Path:
    """Build one program unless it is there; it appears only when it is complete."""
    target = folder / "bin" / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"building {name}, which takes minutes", flush=True)
    partial = target.with_name(f".{name}.partial")
    _go(folder, *(verb or ("build",)), "-ldflags=-s -w", "-o", str(partial), package)
    partial.rename(target)
    return target


def source(folder: Path, path: str = KUBERNETES) -> Path:
    """The folder of a module, once a program has been built."""
    return Path(json.loads(_go(folder, "mod", "download", "-json", path))["Dir"])


def _go(folder: Path, *words: str) -> str:
    if shutil.which("go") is None:
        raise ConformanceError(
            "building the tests needs Go, which is not on PATH: install it (https://go.dev/doc/"
            "install) and run again"
        )
    # -mod=mod: the sums are looked up in Go's checksum database and written next to go.mod.
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false -trimpath"}
    if words[0] in ("test", "build"):
        environment["CGO_ENABLED"] = "0"
    result = subprocess.run(
        ["go", *words],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode != 0:
        said = (result.stderr or result.stdout).strip()
        raise ConformanceError(f"`go {' '.join(words)}` failed in {folder}:\n{said[-3000:]}")
    return result.stdout
