"""Create, set up and enter the lab's own network, mount and process namespaces."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import psutil

from lab.cloud.layout import (
    API,
    BRIDGE,
    DRIVERS,
    ETC,
    EXTERNAL_CIDR,
    INIT_PID,
    POOL,
    RUN,
)
from lab.errors import LabError
from lab.paths import ensure

# LXC puts servers below the group of process 1. On cgroup v2 it cannot limit them there while that
# group has processes, as a login's has; only the root may have both.
JOIN_ROOT_GROUP = (
    "test ! -e /sys/fs/cgroup/cgroup.controllers || echo 1 >/sys/fs/cgroup/cgroup.procs"
)


def create(command: Sequence[str], *, log: Path, inherited: int) -> subprocess.Popen[bytes]:
    """Start `command` as process 1 of new namespaces; it keeps the descriptor `inherited`."""
    with open(log, "ab") as output:
        return subprocess.Popen(
            [
                "unshare",
                "--net",
                "--mount",
                "--propagation",
                "private",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--",
                *command,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={name: value for name, value in os.environ.items() if not _is_proxy(name)},
            pass_fds=(inherited,),
            start_new_session=True,
        )


def _is_proxy(name: str) -> bool:
    """True for the host's proxies, which cannot be reached from inside."""
    return name.lower().endswith("_proxy")


def init_pid(unshare: int) -> int:
    """Return the supervisor's process id on the host, the one child of `unshare`, or 0."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(unshare).children():
            return int(child.pid)
    return 0


def running() -> int:
    """Return the process id of the running lab's supervisor on the host, or 0 without a lab.

    Raises:
        LabError: in the lab's own namespaces, where the machine looks as if there were no lab.
    """
    if b"lab.cloud.supervisor" in Path("/proc/1/cmdline").read_bytes():
        raise LabError("this shell is inside of the lab: run this outside of it")
    try:
        pid, started = INIT_PID.read_text().split()
        status, since = _process(int(pid))
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return 0
    except PermissionError:
        raise LabError("the lab belongs to root: run this as root") from None
    # Process ids are reused: the start tells the processes apart.
    return int(pid) if since == started and status != "Z" else 0


def remember(pid: int) -> None:
    """Write down the id of the process that holds the namespaces."""
    INIT_PID.write_text(f"{pid} {_process(pid)[1]}\n")


def _process(pid: int) -> tuple[str, str]:
    """The state of a process and its start, in ticks since the boot: a clock may be set."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], fields[19]


def furnish() -> None:
    """Set up /sys, /run, resolver, loopback, external bridge and disk pool, once, from inside."""
    steps = [
        # Only a sysfs mounted in the namespace shows its devices. The cgroups stay the host's.
        f"mkdir -p {RUN}/cgroup",
        f"mount --rbind /sys/fs/cgroup {RUN}/cgroup",
        "mount -t sysfs sysfs /sys",
        f"mount --rbind {RUN}/cgroup /sys/fs/cgroup",
        f"umount -l {RUN}/cgroup",
        f"rmdir {RUN}/cgroup",
        JOIN_ROOT_GROUP,
        # Files that services leave in /run disappear with the lab.
        "mount -t tmpfs -o mode=755 tmpfs /run",
        "mkdir -p /run/lock /run/netns",
        # Agents create namespaces here, each from a mount namespace of its own; all must see them.
        "mount -t tmpfs tmpfs /run/netns",
        "mount --make-shared /run/netns",
        "ip link set lo up",
        f"ip link add {BRIDGE} type bridge",
        f"ip link set {BRIDGE} mtu 1500 up",
        f"ip address add {API}/{EXTERNAL_CIDR.partition('/')[2]} dev {BRIDGE}",
        "sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1",
    ]
    for step in steps:
        subprocess.run(["sh", "-ec", step], check=True)
    resolver = Path(os.path.realpath("/etc/resolv.conf"))
    ensure(resolver.parent)
    # It is missing only where it was a link into /run, which the lab has replaced above.
    resolver.touch()
    subprocess.run(["mount", "--bind", str(ETC / "resolv.conf"), str(resolver)], check=True)
    subprocess.run([sys.executable, str(DRIVERS / "pool.py"), "mount", str(POOL)], check=True)


def enter(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
    folder: Path | None = None,
) -> list[str]:
    """Return the command line that runs `command` in the lab's namespaces, and in this folder."""
    pid = running()
    if not pid:
        raise LabError("no lab is running: start it with `.venv/bin/python -m lab cloud up`")
    return [
        "nsenter",
        "--target",
        str(pid),
        "--net",
        "--mount",
        "--pid",
        # The command ends with the outer process.
        "setpriv",
        "--pdeathsig",
        "TERM",
        "env",
        f"--chdir={folder or Path.cwd()}",
        *(f"--unset={name}" for name in os.environ if _is_proxy(name)),
        *(f"{name}={value}" for name, value in environment.items()),
        *command,
    ]
