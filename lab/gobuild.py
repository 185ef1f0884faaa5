"""Build programs from Go modules with checked sums, one at a time, in the lab's own Go caches."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lab.console import say, step
from lab.errors import LabError
from lab.exclusive import exclusive
from lab.paths import BIN, GO_CACHE, LOGS, ensure

# For the largest one, Kubernetes: its downloads, its build cache and its programs.
ROOM_FOR_A_BUILD = 12_000_000_000
# Exists while nothing has been built or downloaded since the cache was last measured.
TRIMMED = GO_CACHE / "trimmed"


def go_environment() -> dict[str, str]:
    """Build the environment for every go command of the lab.

    The module proxy comes from the user's own Go settings without `direct`: falling back to a
    version-control host hangs on machines that reach only the proxy.
    """
    proxy = subprocess.run(
        ["go", "env", "GOPROXY"], check=True, capture_output=True, text=True
    ).stdout.strip()
    proxy = ",".join(p for p in proxy.split(",") if p != "direct") or proxy
    return {
        **os.environ,
        "GOPROXY": proxy,
        # Programs are stripped anyway: doing without debug information saves a tenth of the time.
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(ensure(GO_CACHE / "build")),
        "GOMODCACHE": str(ensure(GO_CACHE / "mod")),
        "GOTMPDIR": str(ensure(GO_CACHE / "tmp")),
    }


def build_lock() -> AbstractContextManager[None]:
    """Hold the machine's one build slot: two Go builds at a time only compete for memory."""
    return exclusive(GO_CACHE / "lock", "another build")


def remove_leftovers() -> None:
    """Remove the folders of interrupted builds; call it with the build slot held."""
    for folder in (GO_CACHE / "tmp").glob("go-build*"):
        shutil.rmtree(folder, ignore_errors=True)


def make_room() -> None:
    """Empty the build cache when the disk is nearly full; call it with the build slot held.

    Packages that programs share are then compiled twice, which is better than a failed build.
    """
    free = shutil.disk_usage(GO_CACHE).free
    if free < ROOM_FOR_A_BUILD and (GO_CACHE / "build").is_dir():
        say(f"only {free / 1e9:.0f} GB of disk are free: emptying Go's build cache")
        shutil.rmtree(GO_CACHE / "build")
        ensure(GO_CACHE / "build")


# Go's error messages, and what to do about each.
HINTS = (
    (
        r"dial tcp|no such host|i/o timeout|TLS handshake|connection re(fused|set)|proxyconnect",
        (
            "the Go module proxy cannot be reached: check the network, or set another proxy with"
            " `go env -w GOPROXY=...`"
        ),
    ),
    (
        r"SECURITY ERROR|checksum mismatch",
        (
            "a downloaded module does not match go.sum: empty {mod} and run again; if the error"
            " stays, the proxy serves other content than the released module"
        ),
    ),
    (r"no space left on device", "the disk is full: building everything needs some 30 GB"),
    (
        r"signal: killed|cannot allocate memory",
        "the machine ran out of memory: stop other programs",
    ),
    (r"requires go >= ", "Go is too old: install a newer one (https://go.dev/doc/install)"),
    (
        r"no required module provides|could not import|cannot find package|zip: not a valid",
        "the module cache may be incomplete: empty {mod} and run again",
    ),
)


def failure(name: str, log: Path) -> LabError:
    """Explain a failed build by its log: a hint where there is one, and the log's last lines."""
    text = log.read_text(errors="replace")
    hint = next((h for pattern, h in HINTS if re.search(pattern, text)), "")
    hint = f": {hint.format(mod=GO_CACHE / 'mod')}" if hint else ""
    tail = "\n".join(text.splitlines()[-15:])
    return LabError(f"building {name} failed{hint}\nThe full log is {log}; its last lines:\n{tail}")


def _is_test(path: Path) -> bool:
    return path.name.endswith("_test.go") or "testdata" in path.parts


def fingerprint(module: Path, *extra: str) -> str:
    """Hash a module's files, without its tests, and the other inputs of its build."""
    digest = hashlib.sha256()
    for path in sorted(p for p in module.rglob("*") if p.is_file() and not _is_test(p)):
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
    completed: Sequence[str] = (),
) -> Path:
    """Build `packages` ({program name: Go package path}) of the module in `module`.

    For each dependency PATH in `completed`, the files in the module's folder over/PATH are added
    to the dependency's own: the release has them, its Go module does not.

    Returns the folder with the programs. It is named after the inputs' fingerprint, so a second
    call returns at once, and appears only when it is complete, so a build can be interrupted.
    """
    flags = " ".join(("-s", "-w", *ldflags))
    key = fingerprint(
        module, *(f"{k}={v}" for k, v in sorted(packages.items())), flags, *tags, str(cgo)
    )
    target = BIN / f"{name}-{key}"
    if target.is_dir():
        return target
    require_go(name)
    with build_lock():
        if target.is_dir():
            return target
        partial = ensure(BIN) / f".{name}-{key}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        remove_leftovers()
        make_room()
        TRIMMED.unlink(missing_ok=True)
        log = ensure(LOGS) / f"build-{name}.log"
        environment = {**go_environment(), "CGO_ENABLED": "1" if cgo else "0"}
        with (
            step(f"build {name} from Go modules (log: {log})"),
            open(log, "w") as output,
            _completed(module, completed) as folder,
        ):
            command = ["nice", "-n", "5", "go", "build", "-ldflags", flags]
            if tags:
                command += ["-tags", ",".join(tags)]
            # One command builds all programs named after their package: one links while the next
            # compiles.
            together = [p for name_, p in packages.items() if p.rsplit("/", 1)[-1] == name_]
            runs = [(f"{partial}/", together)] if together else []
            runs += [(str(partial / n), [p]) for n, p in packages.items() if p not in together]
            for out, wanted in runs:
                result = subprocess.run(
                    [*command, "-o", out, *wanted],
                    cwd=folder,
                    env=environment,
                    stdout=output,
                    stderr=output,
                )
                if result.returncode != 0:
                    raise failure(name, log)
        partial.rename(target)
    return target


@contextmanager
def _completed(module: Path, paths: Sequence[str]) -> Iterator[Path]:
    """Yield the module, or a copy of it with copies of the dependencies that need more files.

    Go's -overlay does not help: it refuses files in the module cache.
    """
    if not paths:
        yield module
        return
    # Named like Go's own folders, so that remove_leftovers finds it.
    with tempfile.TemporaryDirectory(dir=ensure(GO_CACHE / "tmp"), prefix="go-build") as name:
        folder = Path(name)
        shutil.copytree(module, folder, dirs_exist_ok=True)
        for path in paths:
            copy = ensure((folder / "completed" / path).parent) / Path(path).name
            # The module cache is read-only.
            source = str(module_folder(module, path))
            subprocess.run(["cp", "-r", "--no-preserve=mode", source, str(copy)], check=True)
            shutil.copytree(module / "over" / path, copy, dirs_exist_ok=True)
        with open(folder / "go.mod", "a") as file:
            file.writelines(f"\nreplace {path} => ./completed/{path}\n" for path in paths)
        yield folder


def require_go(what: str) -> None:
    """Fail with installation instructions if Go is missing."""
    if shutil.which("go") is None:
        raise LabError(
            f"building {what} needs Go, which is not on PATH:"
            " install it (https://go.dev/doc/install) and run again"
        )


def module_folder(module: Path, path: str) -> Path:
    """Download dependency `path` of `module`; return its folder in the module cache."""
    require_go(path)
    environment = go_environment()
    TRIMMED.unlink(missing_ok=True)
    download = subprocess.run(
        ["go", "mod", "download", "-json", path],
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
    )
    folder = json.loads(download.stdout or "{}").get("Dir", "")
    if download.returncode != 0 or not folder:
        log = ensure(LOGS) / "module-download.log"
        log.write_text(download.stdout + download.stderr)
        raise failure(path, log)
    return Path(folder)


def trim(*, modules: bool = False) -> None:
    """Empty Go's build cache, and with `modules` the module cache; the built programs stay."""
    with build_lock():
        shutil.rmtree(GO_CACHE / "build", ignore_errors=True)
        if modules:
            # Go's own command: the files there are read-only.
            subprocess.run(["go", "clean", "-modcache"], env=go_environment(), check=True)
