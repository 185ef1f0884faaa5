"""Build programs from Go modules with checked sums, one at a time, in the lab's own Go caches."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.console import step
from lab.errors import LabError
from lab.paths import BIN, GO_CACHE, LOGS, ensure


def go_environment() -> dict[str, str]:
    """The environment for every go command of the lab.

    The module proxy comes from the user's own Go settings without `direct`: a fallback to a
    version-control host hangs where only the proxy can be reached.
    """
    proxy = subprocess.run(
        ["go", "env", "GOPROXY"], check=True, capture_output=True, text=True
    ).stdout.strip()
    proxy = ",".join(p for p in proxy.split(",") if p != "direct") or proxy
    return {
        **os.environ,
        "GOPROXY": proxy,
        # Programs are stripped anyway: making no debug information saves a tenth of the time.
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(ensure(GO_CACHE / "build")),
        "GOMODCACHE": str(ensure(GO_CACHE / "mod")),
        "GOTMPDIR": str(ensure(GO_CACHE / "tmp")),
    }


@contextmanager
def build_lock() -> Iterator[None]:
    """Hold the machine's one build slot: two Go builds at once only fight for memory."""
    with open(ensure(GO_CACHE) / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def fingerprint(module: Path, *extra: str) -> str:
    """A short hash of every file of a module folder and of what else decides the result."""
    digest = hashlib.sha256()
    for path in sorted(p for p in module.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(module)).encode() + b"\0" + path.read_bytes() + b"\0")
    for text in extra:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:12]


def build(
    name: str,
    module: Path,
    packages: Mapping[str, str],
    *,
    ldflags: Sequence[str] = (),
    tags: Sequence[str] = (),
    cgo: bool = False,
) -> Path:
    """Build `packages` ({program name: Go package path}) of the module in `module`.

    Returns the folder with the programs. It is named after the inputs' fingerprint, so a second
    call returns at once, and it appears only when it is complete, so a build can be cut off.
    """
    flags = " ".join(("-s", "-w", *ldflags))
    key = fingerprint(module, *(f"{k}={v}" for k, v in sorted(packages.items())), flags, *tags, str(cgo))
    target = BIN / f"{name}-{key}"
    if target.is_dir():
        return target
    if shutil.which("go") is None:
        raise LabError(f"building {name} needs Go: install it (https://go.dev/doc/install) and run again")
    with build_lock():
        if target.is_dir():
            return target
        partial = ensure(BIN) / f".{name}-{key}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        log = ensure(LOGS) / f"build-{name}.log"
        environment = {**go_environment(), "CGO_ENABLED": "1" if cgo else "0"}
        with step(f"build {name} from Go modules (log: {log})"), open(log, "w") as output:
            command = ["nice", "-n", "5", "go", "build", "-ldflags", flags]
            if tags:
                command += ["-tags", ",".join(tags)]
            # Programs named after their package are built by one command: one links while
            # the next one compiles.
            together = [p for name_, p in packages.items() if p.rsplit("/", 1)[-1] == name_]
            runs = [(f"{partial}/", together)] if together else []
            runs += [(str(partial / n), [p]) for n, p in packages.items() if p not in together]
            for out, wanted in runs:
                result = subprocess.run(
                    [*command, "-o", out, *wanted],
                    cwd=module, env=environment, stdout=output, stderr=output,
                )
                if result.returncode != 0:
                    tail = "\n".join(log.read_text().splitlines()[-15:])
                    raise LabError(f"building {name} failed, see {log}:\n{tail}")
        partial.rename(target)
    return target


def module_folder(module: Path, path: str) -> Path:
    """The folder in the module cache that holds the source of dependency `path` of `module`."""
    result = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", path],
        cwd=module, env=go_environment(), capture_output=True, text=True,
    )
    folder = result.stdout.strip()
    if result.returncode != 0 or not folder:
        subprocess.run(["go", "mod", "download", path], cwd=module, env=go_environment(), check=True)
        return module_folder(module, path)
    return Path(folder)


def trim() -> None:
    """Empty Go's build cache: the programs are kept, what they were compiled from is not."""
    shutil.rmtree(GO_CACHE / "build", ignore_errors=True)
