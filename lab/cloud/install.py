"""Install the cloud's programs: Debian packages, a virtual environment, one patch."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.cloud.layout import DRIVERS, INSTALL, VENV, VENV_BIN, VERSIONS
from lab.console import step
from lab.errors import LabError
from lab.paths import LOGS, ensure

PACKAGES = (
    "arptables",
    "bridge-utils",
    "conntrack",
    # Polls the API in tests.
    "curl",
    # Makes the base system of the node image.
    "debootstrap",
    "dnsmasq-base",
    "dnsmasq-utils",
    "ebtables",
    "haproxy",
    "iproute2",
    "ipset",
    "iptables",
    "iputils-arping",
    "lxc",
    "mariadb-server",
    "memcached",
    "openssh-client",
    "procps",
    "qemu-utils",
    "rabbitmq-server",
    "socat",
    "util-linux",
    "xfsprogs",
    # uWSGI and netifaces are compiled.
    "gcc",
    "libc6-dev",
    "python3-dev",
    "python3-venv",
)
# OpenStack 2024.2 runs on these.
PYTHONS = ((3, 9), (3, 12))
POLICY = Path("/usr/sbin/policy-rc.d")
OWN_POLICY = "#!/bin/sh\n# Of the lab, while it installs packages.\nexit 101\n"
LOG = LOGS / "cloud-install.log"

# oslo.messaging 14.9 looks for a reply twice a second, so each call between services takes half a
# second; newer releases wait on a queue.
PATCHED = "oslo_messaging/_drivers/amqpdriver.py"
SLOW = "            except queue.Empty:\n                time.sleep(0.5)\n"
FAST = "            except queue.Empty:\n                time.sleep(0.005)\n"


def run(command: Sequence[str], what: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command with its output in the log; an error shows its last lines."""
    with open(LOG, "ab") as log:
        start = log.tell()
        result = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
    if result.returncode != 0:
        lines = LOG.read_bytes()[start:].decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if line.startswith(("ERROR", "E:"))]
        tail = [line[:200] for line in (errors or lines)[-4:]]
        raise LabError(
            f"{what} failed: is the package registry reachable from here? Run the same command "
            f"again to continue. The full log is {LOG}; its last lines:\n  " + "\n  ".join(tail)
        )


@contextlib.contextmanager
def no_daemons() -> Iterator[None]:
    """Keep packages from starting their services on the host."""
    # A lab that was killed has left its own.
    if POLICY.exists() and POLICY.read_text() != OWN_POLICY:
        yield
        return
    POLICY.write_text(OWN_POLICY)
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def missing_packages() -> list[str]:
    """Debian packages that are not installed."""
    listed = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *PACKAGES],
        capture_output=True,
        text=True,
    )
    installed = {
        line.split()[0] for line in listed.stdout.splitlines() if line.endswith(" installed")
    }
    return [name for name in PACKAGES if name not in installed]


def debian_packages() -> None:
    """Install what is missing."""
    missing = missing_packages()
    if not missing:
        return
    wait_for_others = "DPkg::Lock::Timeout=600"
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    environment = {**_environ(), **quiet}
    with step(f"install Debian packages: {' '.join(missing)}"), no_daemons():
        # An installation that was killed would stop this one.
        run(["dpkg", "--configure", "-a"], "dpkg --configure -a", environment)
        run(["apt-get", "-q", "-o", wait_for_others, "update"], "apt-get update", environment)
        run(
            [
                "apt-get",
                "-q",
                "-y",
                "-o",
                wait_for_others,
                "install",
                "--no-install-recommends",
                *missing,
            ],
            "installing Debian packages",
            environment,
        )


def _environ() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _python() -> tuple[str, str]:
    """Find a Python that OpenStack runs on, and its version: the system's, else the lab's own."""
    for candidate in ("/usr/bin/python3", getattr(sys, "_base_executable", sys.executable)):
        version = _version_of(candidate)
        numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
        if PYTHONS[0] <= numbers <= PYTHONS[1]:
            return candidate, version
    raise LabError("OpenStack 2024.2 needs Python 3.9 to 3.12: install one of them as python3")


def _version_of(python: str) -> str:
    return subprocess.run([python, "--version"], capture_output=True, text=True).stdout


def _site_packages() -> Path:
    return next((VENV / "lib").glob("python3.*")) / "site-packages"


def virtual_environment() -> None:
    """Install the pinned packages; those of an earlier, interrupted run are kept."""
    python, version = _python()
    wanted = hashlib.sha256(VERSIONS.read_bytes() + f"{version}{FAST}".encode()).hexdigest()
    complete = INSTALL / "complete"
    if complete.exists() and complete.read_text() == wanted:
        return
    ensure(INSTALL)
    complete.unlink(missing_ok=True)
    present = VENV_BIN / "python"
    clear = [] if present.exists() and _version_of(str(present)) == version else ["--clear"]
    with step(f"install OpenStack into a virtual environment (log: {LOG})"):
        run([python, "-m", "venv", *clear, str(VENV)], "making a virtual environment", _environ())
        run(
            [
                str(VENV_BIN / "pip"),
                "install",
                "--prefer-binary",
                "--disable-pip-version-check",
                "--requirement",
                str(VERSIONS),
            ],
            "installing OpenStack",
            _environ(),
        )
        patch(_site_packages() / PATCHED)
        complete.write_text(wanted)


def patch(path: Path) -> None:
    """Make oslo.messaging look for replies every 5 ms."""
    text = path.read_text()
    if FAST in text:
        return
    if text.count(SLOW) != 1:
        raise LabError(
            f"the lab's patch does not fit {path}: oslo.messaging in {VERSIONS} has another "
            "version; check whether the patch is still needed and change lab/cloud/install.py"
        )
    path.write_text(text.replace(SLOW, FAST))


def link_drivers() -> None:
    """Let this checkout's compute driver appear below nova.virt, where Nova looks for it."""
    link = _site_packages() / "nova" / "virt" / "nova_lxc"
    target = DRIVERS / "nova_lxc"
    if not (target / "driver.py").exists():
        raise LabError(f"{target}/driver.py is missing: restore the checkout (`git status`)")
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def install() -> None:
    """Install everything that is missing."""
    ensure(LOGS)
    debian_packages()
    virtual_environment()
    link_drivers()
