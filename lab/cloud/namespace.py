"""The lab's own network, mount and process namespaces: made, furnished, entered."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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


def create(command: Sequence[str], *, log: Path, inherited: int) -> subprocess.Popen[bytes]:
    """Start `command` as process 1 of new namespaces; `inherited` is a descriptor it keeps."""
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
            pass_fds=(inherited,),
            start_new_session=True,
        )


def init_pid(unshare: int) -> int:
    """The supervisor as the host sees it: the one child of `unshare`, or 0."""
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(unshare).children():
            return int(child.pid)
    return 0


def running() -> int:
    """The supervisor of the running lab as the host sees it, or 0 when no lab runs."""
    try:
        pid, started = INIT_PID.read_text().split()
        process = psutil.Process(int(pid))
    except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
        return 0
    except PermissionError:
        raise LabError("the lab belongs to root: run this as root") from None
    # A process number is used again some day: its start time tells the two apart.
    alive = str(process.create_time()) == started and process.status() != psutil.STATUS_ZOMBIE
    return int(process.pid) if alive else 0


def remember(pid: int) -> None:
    """Write down which process holds the namespaces."""
    INIT_PID.write_text(f"{pid} {psutil.Process(pid).create_time()}\n")


def furnish() -> None:
    """From inside, once: fresh /sys, /run and resolver, loopback, external bridge, disk pool."""
    steps = [
        # A network namespace's devices show in a sysfs mounted in it. The cgroups stay the host's.
        f"mkdir -p {RUN}/cgroup",
        f"mount --rbind /sys/fs/cgroup {RUN}/cgroup",
        "mount -t sysfs sysfs /sys",
        f"mount --rbind {RUN}/cgroup /sys/fs/cgroup",
        f"umount -l {RUN}/cgroup",
        f"rmdir {RUN}/cgroup",
        # What services leave in /run is gone with the lab.
        "mount -t tmpfs -o mode=755 tmpfs /run",
        "mkdir -p /run/lock /run/netns",
        # Agents make namespaces here, each in a mount namespace of its own; all must see them.
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
    # Missing only where it was a link into /run, which is the lab's own by now.
    resolver.touch()
    subprocess.run(["mount", "--bind", str(ETC / "resolv.conf"), str(resolver)], check=True)
    subprocess.run([sys.executable, str(DRIVERS / "pool.py"), "mount", str(POOL)], check=True)


def enter(
    command: Sequence[str], *, environment: Mapping[str, str], folder: Path | None = None
) -> list[str]:
    """The command line that runs `command` inside the lab's namespaces."""
    pid = running()
    if not pid:
        raise LabError("no lab is running: start it with `python -m lab cloud up`")
    return [
        "nsenter",
        "--target",
        str(pid),
        "--net",
        "--mount",
        "--pid",
        # Who ends the outer process ends the command with it.
        "setpriv",
        "--pdeathsig",
        "TERM",
        "env",
        f"--chdir={folder or Path.cwd()}",
        # A proxy of the host cannot be reached from inside.
        *(f"--unset={name}" for name in os.environ if name.lower().endswith("_proxy")),
        *(f"{name}={value}" for name, value in environment.items()),
        *command,
    ]
