"""One LXC system container: its configuration, its life, its control groups."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .command import CommandError, attempt, run

CGROUPS = Path("/sys/fs/cgroup")
_AUTODEV = Path(__file__).with_name("autodev.sh")
# Tries; each may lose its loop device to somebody who takes one at the same moment.
_STARTS = 10


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A container's configuration."""

    hostname: str
    root: Path
    memory_mb: int
    vcpus: int
    # The inner ends of the ports, in the order of the server's interfaces.
    interfaces: Sequence[str]


class Container:
    """The container whose files are in `folder`; LXC knows it by the folder's name."""

    def __init__(self, folder: Path, cgroup: str) -> None:
        self.folder = folder
        self.cgroup = cgroup
        self._names = ("-P", str(folder.parent), "-n", folder.name)

    @property
    def console(self) -> Path:
        """The output of all the server's boots on its console."""
        return self.folder / "console.log"

    @property
    def devices(self) -> Path:
        """The block devices that the next boot finds: one `name major minor serial` a line."""
        return self.folder / "devices"

    def configure(self, settings: Settings) -> None:
        """Write LXC's configuration; it is read at the next start."""
        (self.folder / "rootfs").mkdir(exist_ok=True)
        lines = [
            f"lxc.uts.name = {settings.hostname}",
            # LXC attaches the loop device inside the container: it goes with the container,
            # however that ends, and comes again when the server reboots itself.
            f"lxc.rootfs.path = loop:{settings.root}",
            *_CONFIG.format(folder=self.folder, autodev=_AUTODEV).splitlines(),
            *self._groups(),
            *_limits(settings.memory_mb, settings.vcpus),
        ]
        for number, interface in enumerate(settings.interfaces):
            lines += [
                f"lxc.net.{number}.type = phys",
                f"lxc.net.{number}.link = {interface}",
                f"lxc.net.{number}.name = eth{number}",
                f"lxc.net.{number}.flags = up",
            ]
        if not settings.interfaces:
            lines.append("lxc.net.0.type = empty")
        (self.folder / "config").write_text("\n".join(lines) + "\n")

    def start(self, replug: Callable[[], None]) -> None:
        """Start it and return when its first process runs.

        Args:
            replug: recreates its interfaces. A start that fails may take along what it had moved
                in already, so each further one begins with this.
        """
        for left in reversed(range(_STARTS)):
            try:
                (self.folder / "lxc.log").unlink(missing_ok=True)
                run("lxc-start", *self._names, "-d")
                return
            except CommandError as error:
                # Two that take a loop device at the same moment may be given the same one.
                errors = self._errors()
                if not left or "Failed to prepare loop device" not in errors:
                    raise RuntimeError(f"the container did not start: {errors}") from error
                time.sleep(random.uniform(0.1, 0.5))
                self.remove_groups()
                replug()

    def _errors(self) -> str:
        """Errors that LXC has logged since the start."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "lxc.log").read_text(errors="replace").splitlines()
            return "; ".join(line for line in lines if " ERROR " in line)
        return "LXC has logged nothing"

    def stop(self, timeout: int) -> None:
        """Ask it to shut down, and end it when it has not within `timeout` seconds."""
        if not self.running:
            return
        if timeout <= 0 or not attempt("lxc-stop", *self._names, "-t", timeout):
            attempt("lxc-stop", *self._names, "-k")
        self.remove_groups()

    def freeze(self) -> None:
        """Stop its processes where they are."""
        run("lxc-freeze", *self._names)

    def thaw(self) -> None:
        """Let its processes continue."""
        run("lxc-unfreeze", *self._names)

    @property
    def state(self) -> str:
        """RUNNING, STOPPED, FROZEN, STARTING, STOPPING or ABORTING."""
        if not (self.folder / "config").exists():
            return "STOPPED"
        return run("lxc-info", *self._names, "-s", "-H", ok=(0, 1)).strip() or "STOPPED"

    @property
    def running(self) -> bool:
        """Tell whether it has any process."""
        return self.state != "STOPPED"

    @property
    def pid(self) -> int:
        """Its first process, or 0."""
        if not (self.folder / "config").exists():
            return 0
        pid = run("lxc-info", *self._names, "-p", "-H", ok=(0, 1)).strip()
        return int(pid) if pid.isdigit() else 0

    @property
    def root(self) -> Path:
        """Its root folder as this process reaches it, while it runs."""
        return Path(f"/proc/{self.pid}/root")

    def remove_groups(self) -> None:
        """Remove control groups that LXC left; groups with processes stay."""
        for hierarchy in (CGROUPS, *(p for p in CGROUPS.iterdir() if p.is_dir())):
            for name in (self.folder.name, f"monitor-{self.folder.name}"):
                top = hierarchy / _own_group(hierarchy) / self.cgroup / name
                for folder, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)

    def _groups(self) -> list[str]:
        """Settings of its control groups: the limits one level above its own root."""
        name = self.folder.name
        return [
            f"lxc.cgroup.dir.container = {self.cgroup}/{name}",
            "lxc.cgroup.dir.container.inner = server",
            f"lxc.cgroup.dir.monitor = {self.cgroup}/monitor-{name}",
            f"lxc.cgroup.dir.monitor.pivot = {self.cgroup}/ended",
        ]


def _limits(memory_mb: int, vcpus: int) -> list[str]:
    """Memory and processor time, for both kinds of control groups."""
    if unified():
        return [
            f"lxc.cgroup2.memory.max = {memory_mb << 20}",
            f"lxc.cgroup2.cpu.max = {vcpus * 100_000} 100000",
        ]
    return [
        f"lxc.cgroup.memory.limit_in_bytes = {memory_mb << 20}",
        "lxc.cgroup.cpu.cfs_period_us = 100000",
        f"lxc.cgroup.cpu.cfs_quota_us = {vcpus * 100_000}",
    ]


def unified() -> bool:
    """Tell whether the machine has cgroup v2 alone."""
    return (CGROUPS / "cgroup.controllers").exists()


def _own_group(hierarchy: Path) -> str:
    """The group of process 1 in a hierarchy: LXC puts containers below it."""
    for line in Path("/proc/1/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        names = controllers.removeprefix("name=").split(",") if controllers else [""]
        unified_names = ("", "unified") if names == [""] else names
        if hierarchy.name in unified_names or (names == [""] and hierarchy == CGROUPS):
            return path.lstrip("/")
    return ""


# A container that may do what a Kubernetes node does. SIGRTMIN+3 and SIGINT are what systemd
# takes as power button and reset. The two variables let systemd 257 start on cgroup v1; by the
# third cloud-init knows that a metadata service is there.
_CONFIG = """\
lxc.arch = linux64
lxc.apparmor.profile = unconfined
lxc.cap.drop =
lxc.mount.auto = proc:rw sys:rw cgroup:rw
lxc.mount.entry = /dev/kmsg dev/kmsg none bind,create=file,optional
lxc.mount.entry = /dev/fuse dev/fuse none bind,create=file,optional
lxc.mount.entry = /dev/net/tun dev/net/tun none bind,create=file,optional
lxc.hook.autodev = {autodev}
lxc.autodev = 1
lxc.tty.max = 0
lxc.pty.max = 1024
lxc.environment = container=lxc
lxc.environment = SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
lxc.environment = product_name=OpenStack Nova
lxc.signal.halt = SIGRTMIN+3
lxc.signal.reboot = SIGINT
lxc.console.logfile = {folder}/console.log
lxc.log.file = {folder}/lxc.log
lxc.log.level = WARN
"""
