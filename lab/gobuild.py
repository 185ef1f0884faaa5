"""Build programs from Go modules with checked sums, one at a time, in the lab's own Go caches."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.console import say, step
from lab.errors import LabError
from lab.paths import BIN, GO_CACHE, LOGS, ensure

# The largest one, Kubernetes: what it downloads, compiles and links.
ROOM_FOR_A_BUILD = 12_000_000_000
# There as long as nothing has been built or downloaded since the cache's size was looked at.
TRIMMED = GO_CACHE / "trimmed"


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
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step("wait for another build on this machine"):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_leftovers() -> None:
    """Remove what builds that were cut off have left; for whoever holds the build slot."""
    for folder in (GO_CACHE / "tmp").glob("go-build*"):
        shutil.rmtree(folder, ignore_errors=True)


def make_room() -> None:
    """Empty the build cache when the disk gets full; for whoever holds the build slot.

    What programs share is then compiled twice, which is better than no program.
    """
    free = shutil.disk_usage(GO_CACHE).free
    if free < ROOM_FOR_A_BUILD and (GO_CACHE / "build").is_dir():
        say(f"{free / 1e9:.0f} GB of disk are free: empty Go's build cache")
        shutil.rmtree(GO_CACHE / "build")
        ensure(GO_CACHE / "build")


# What Go says when something is missing, and what to do about it.
HINTS = (
    (
        r"dial tcp|no such host|i/o timeout|TLS handshake|connection re(fused|set)|proxyconnect",
        (
            "the Go module proxy cannot be reached: look at the network, or name one that can be"
            " reached with `go env -w GOPROXY=...`"
        ),
    ),
    (
        r"SECURITY ERROR|checksum mismatch",
        (
            "what was downloaded is not what go.sum expects: empty {mod} and run again; if it"
            " stays, the proxy serves something else"
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
    """What went wrong in a build, from its log: what to do where that is known, and the end."""
    text = log.read_text(errors="replace")
    hint = next((h for pattern, h in HINTS if re.search(pattern, text)), "")
    hint = f": {hint.format(mod=GO_CACHE / 'mod')}" if hint else ""
    tail = "\n".join(text.splitlines()[-15:])
    return LabError(f"building {name} failed{hint}\nThe whole log is {log}, its end:\n{tail}")


def _is_test(path: Path) -> bool:
    return path.name.endswith("_test.go") or "testdata" in path.parts


def fingerprint(module: Path, *extra: str) -> str:
    """A short hash of a module's files (tests left out) and of what else decides the result."""
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

    What lies in the module's folder over/PATH is put over the files of each dependency PATH of
    `completed`: what the released one has, but not its module.

    Returns the folder with the programs. It is named after the inputs' fingerprint, so a second
    call returns at once, and it appears only when it is complete, so a build can be cut off.
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
            # Programs named after their package are built by one command: one links while
            # the next one compiles.
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
    """The module, or where dependencies need more files a copy that has its own copies of those.

    Go's -overlay does not do: it refuses files of the module cache.
    """
    if not paths:
        yield module
        return
    # Named like Go's own, so that remove_leftovers finds it.
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
    """Say how to get Go where it is missing."""
    if shutil.which("go") is None:
        raise LabError(
            f"building {what} needs Go, which is not on PATH:"
            " install it (https://go.dev/doc/install) and run again"
        )


def module_folder(module: Path, path: str) -> Path:
    """The folder in the module cache that holds the source of dependency `path` of `module`."""
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
    """Empty Go's build cache, and the module cache too if asked.

    The programs are kept, what they were compiled from is not.
    """
    with build_lock():
        shutil.rmtree(GO_CACHE / "build", ignore_errors=True)
        if modules:
            # Go's own command: the files there are read-only.
            subprocess.run(["go", "clean", "-modcache"], env=go_environment(), check=True)
