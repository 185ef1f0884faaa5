"""Kernel settings of the whole machine that a lab changes, and what they were before."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from lab.cloud.layout import SYSCTL_BEFORE

PROC = Path("/proc/sys")
# What the lab itself raises, and to what.
RAISED = {
    # systemd in every server and kubelet's watchers: 128 are used up by the third server.
    "fs/inotify/max_user_instances": 8192,
    "fs/inotify/max_user_watches": 524288,
}
# What servers change: namespaces do not hold these. Those of the network go with the lab's own,
# where the limit of nf_conntrack can only be read.
CHANGED_BY_SERVERS = (
    # The kubelet wants them so.
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    # Debian's sysctl.d; the second is the namespace's own on newer kernels.
    "kernel/core_pattern",
    "kernel/pid_max",
    # Cilium. Nobody can put the second one back before the next boot, once it is 1.
    "kernel/timer_migration",
    "kernel/unprivileged_bpf_disabled",
)


def remember() -> None:
    """Write down what they are; a lab that was cut off has done so already."""
    if SYSCTL_BEFORE.exists():
        return
    before = {}
    for name in (*RAISED, *CHANGED_BY_SERVERS):
        # Not every kernel has every one.
        with contextlib.suppress(OSError):
            before[name] = (PROC / name).read_text().strip()
    partial = SYSCTL_BEFORE.with_suffix(".partial")
    partial.write_text(json.dumps(before, indent=2))
    partial.rename(SYSCTL_BEFORE)


def raise_limits() -> None:
    """Raise what is too low."""
    for name, least in RAISED.items():
        if int((PROC / name).read_text()) < least:
            (PROC / name).write_text(str(least))


def restore() -> list[str]:
    """Put back what differs; returns the names of what the kernel refused."""
    try:
        before = json.loads(SYSCTL_BEFORE.read_text())
    except (FileNotFoundError, ValueError):
        return []
    refused = []
    for name, value in before.items():
        path = PROC / name
        try:
            if path.read_text().strip() != str(value):
                path.write_text(str(value))
        except OSError:
            refused.append(name)
    return refused
