"""The base guest: Debian with systemd, cloud-init and sshd, as a folder to bake into."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from lab.console import step
from lab.errors import LabError
from lab.image.disk import make_image
from lab.paths import CACHE, LOGS, ensure

__all__ = ["make_image", "rootfs", "run_inside"]

SUITE = "trixie"
# What Debian's own cloud image has as far as a node needs it, and the tools kubeadm asks for.
PACKAGES = (
    "apt-utils", "bash-completion", "ca-certificates", "cloud-init", "conntrack", "curl",
    "dbus", "dhcpcd-base", "e2fsprogs", "ebtables", "ethtool", "fdisk", "gnupg", "ipset",
    "iproute2", "iptables", "iputils-ping", "jq", "kmod", "less", "libnss-myhostname", "lsof",
    "netbase", "nftables", "openssh-server", "openssl", "procps", "psmisc", "python3",
    "socat", "sudo", "systemd", "systemd-resolved", "systemd-sysv", "udev",
    "unattended-upgrades", "util-linux", "xfsprogs",
)  # fmt: skip
# Each costs memory or seconds in a container and does nothing there.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service",
    "container-getty@.service", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "getty.target", "getty@.service",
    "systemd-binfmt.service", "systemd-logind.service", "systemd-modules-load.service",
    "systemd-networkd-wait-online.service", "unattended-upgrades.service",
    "xfs_scrub_all.timer",
)  # fmt: skip
ENABLED = (
    "container-node.service",
    "ssh.service",
    "systemd-networkd.service",
    "systemd-resolved.service",
)
# A pod's own resolver must not be the node's loopback; the kubelet finds the real one next to it.
RESOLVER = "../run/systemd/resolve/stub-resolv.conf"
FILES = Path(__file__).with_name("base-files")


def rootfs() -> Path:
    """The folder with the installed system; made on the first call, then cached.

    It is named after everything that decides its contents and appears only when it is complete.
    Copy it before changing it.
    """
    target = ensure(CACHE / "image") / f"base-{SUITE}-{_fingerprint()}"
    if target.is_dir():
        return target
    if os.geteuid() != 0:
        raise LabError("making the base image needs root: run again with sudo")
    if shutil.which("debootstrap") is None:
        raise LabError("debootstrap is missing: apt-get install debootstrap")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    log = ensure(LOGS) / "image-base.log"
    mirrors = _mirrors()
    with step(f"install Debian {SUITE} into {partial.name} (log: {log})"), open(log, "wb") as out:
        options = ["--variant=minbase", "--include=ca-certificates"]
        command = ["debootstrap", *options, SUITE, str(partial)]
        _logged([*command, *([mirrors[0]] if mirrors else [])], out)
        _install(partial, mirrors, out)
        _settle(partial)
    partial.rename(target)
    return target


def run_inside(
    folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command chrooted into `folder` with /proc, /sys and /dev; nothing stays mounted.

    The machine's network and resolver serve the command; daemons do not start.
    """
    script = """
    set -e
    mount -t proc proc "$0/proc"
    mount --bind /sys "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/run"
    exec chroot "$0" "$@"
    """
    policy = folder / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    resolver = folder / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    shutil.copyfile("/etc/resolv.conf", resolver)
    try:
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script,
             str(folder), *command],
            env={
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
    finally:
        policy.unlink(missing_ok=True)
        resolver.unlink(missing_ok=True)
        resolver.symlink_to(RESOLVER)


def _install(folder: Path, mirrors: list[str], out: BinaryIO) -> None:
    """Install the packages with apt inside the new system, by the machine's own apt settings."""
    settings = folder / "etc/apt/apt.conf.d/00build"
    settings.write_text(_apt_settings())
    if mirrors:
        (folder / "etc/apt/sources.list").write_text("".join(_sources(mirrors)))
    apt = "apt-get -q -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 -o Acquire::Languages=none"
    script = f"""
    set -e
    {apt} update
    {apt} upgrade
    {apt} install --no-install-recommends {" ".join(PACKAGES)}
    apt-get clean
    """
    result = run_inside(folder, ["sh", "-c", script])
    out.write(result.stdout)
    if result.returncode != 0:
        tail = "\n".join(result.stdout.decode(errors="replace").splitlines()[-8:])
        raise LabError(f"apt failed inside the base image:\n{tail}")
    settings.unlink()


def _settle(folder: Path) -> None:
    """Lay our files over the system, choose its units, empty what each server makes itself."""
    # Not from the checkout's owner and mode bits: root owns every file of the guest.
    for source in sorted(FILES.rglob("*")):
        if source.is_file():
            target = folder / source.relative_to(FILES)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    units = ("systemctl", "--root=/", "-q")
    for verb, names in (("enable", ENABLED), ("mask", MASKED)):
        result = run_inside(folder, [*units, verb, *names])
        if result.returncode != 0:
            raise LabError(f"systemctl {verb} failed in the base image: {result.stdout.decode()}")
    for key in (folder / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for empty in ("etc/machine-id", "etc/fstab"):
        (folder / empty).write_text("")
    (folder / "etc/hostname").unlink(missing_ok=True)
    (folder / "var/lib/dbus/machine-id").unlink(missing_ok=True)
    for heap in ("var/lib/apt/lists", "var/cache/apt", "var/log/apt", "usr/share/doc",
                 "usr/share/man", "usr/share/locale", "var/cache/debconf"):  # fmt: skip
        for path in (folder / heap).glob("*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for log in (folder / "var/log").rglob("*.log"):
        log.write_text("")


def _mirrors() -> list[str]:
    """Debian's archive, then its security archive, as this machine's apt reaches them.

    None on a machine that is not Debian: debootstrap then takes its own default.
    """
    result = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found: dict[str, str] = {}
    for line in result.stdout.splitlines():
        label, _, uri = line.rpartition(" ")
        found.setdefault(label, uri)
    if "Debian" not in found:
        return []
    return [found[label] for label in ("Debian", "Debian-Security") if label in found]


def _sources(mirrors: list[str]) -> list[str]:
    """The lines of sources.list."""
    lines = [f"deb {mirrors[0]} {suite} main\n" for suite in (SUITE, f"{SUITE}-updates")]
    return lines + [f"deb {uri} {SUITE}-security main\n" for uri in mirrors[1:]]


def _apt_settings() -> str:
    """The settings by which this machine's apt reaches its archives: proxies, time-outs, checks."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Check", "Acquire::Retries")
    return "\n".join(line for line in dump.stdout.splitlines() if line.startswith(wanted)) + "\n"


def _fingerprint() -> str:
    """A short hash of everything that decides what is in the folder."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(p for p in FILES.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(FILES)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _logged(command: list[str], out: BinaryIO) -> None:
    """Run a command with its output in the log; its last lines become the error's text."""
    out.flush()
    result = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        tail = "\n".join(Path(out.name).read_text(errors="replace").splitlines()[-8:])
        raise LabError(f"{command[0]} failed, see {out.name}:\n{tail}")
