"""Programs of Kubernetes' end-to-end tests, built from its Go module at any version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

KUBERNETES = "k8s.io/kubernetes"
E2E, GINKGO = "e2e.test", "ginkgo"


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
    # `go vet`, which belongs to a test's build, would take minutes.
    program(version, folder, E2E, f"{KUBERNETES}/test/e2e", "test", "-c", "-vet=off")
    # The same release that the tests are written with: the two talk to each other.
    program(version, folder, GINKGO, "github.com/onsi/ginkgo/v2/ginkgo")
    return folder / "bin"


def program(version: str, folder: Path, name: str, package: str, *verb: str) -> Path:
    """Build one program unless it is there; it appears only when it is complete."""
    target = folder / "bin" / name
    if target.exists():
        return target
    if shutil.which("go") is None:
        raise ConformanceError(
            f"building {name} needs Go, which is not on PATH: install it (https://go.dev/doc/"
            "install) and run again"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    if not (folder / "go.mod").exists():
        shown = json.loads(_go(folder, "mod", "download", "-json", f"{KUBERNETES}@{version}"))
        own = Path(shown["Dir"], "go.mod").read_text()
        (folder / "go.mod").write_text(module(version, own))
    print(f"building {name}, which takes minutes", flush=True)
    partial = target.with_name(f".{name}.partial")
    _go(folder, *(verb or ("build",)), "-ldflags=-s -w", "-o", str(partial), package)
    partial.rename(target)
    return target


def source(folder: Path) -> Path:
    """The folder of Kubernetes' module, once a program has been built."""
    return Path(json.loads(_go(folder, "mod", "download", "-json", KUBERNETES))["Dir"])


def _go(folder: Path, *words: str) -> str:
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
