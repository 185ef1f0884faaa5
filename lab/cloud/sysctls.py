"""Remember and restore the kernel settings of the whole machine that a lab changes."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from lab.cloud.layout import SYSCTL_BEFORE

PROC = Path("/proc/sys")
# Settings that the lab itself raises, and their new values.
RAISED = {
    # systemd and the kubelet's watchers: the default of 128 is used up by the third server.
    "fs/inotify/max_user_instances": 8192,
    "fs/inotify/max_user_watches": 524288,
    # One table of neighbours for all namespaces: hundreds of nodes fill the default of 1024.
    "net/ipv4/neigh/default/gc_thresh1": 8192,
    "net/ipv4/neigh/default/gc_thresh2": 32768,
    "net/ipv4/neigh/default/gc_thresh3": 65536,
}
# Settings that servers change and that no namespace isolates. Those of the network disappear with
# the lab's namespace, where the limit of nf_conntrack is read-only.
CHANGED_BY_SERVERS = (
    # The kubelet.
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    # Debian's sysctl.d; the second is the namespace's own on newer kernels.
    "kernel/core_pattern",
    "kernel/pid_max",
    # Cilium. Once the second one is 1, it stays so until the next boot.
    "kernel/timer_migration",
    "kernel/unprivileged_bpf_disabled",
)


def remember() -> None:
    """Write down the current values, unless an interrupted lab has done so already."""
    if SYSCTL_BEFORE.exists():
        return
    before = {}
    for name in (*RAISED, *CHANGED_BY_SERVERS):
        # Not every kernel has all of them.
        with contextlib.suppress(OSError):
            before[name] = (PROC / name).read_text().strip()
    partial = SYSCTL_BEFORE.with_suffix(".partial")
    partial.write_text(json.dumps(before, indent=2))
    partial.rename(SYSCTL_BEFORE)


def raise_limits() -> None:
    """Raise the settings that are too low."""
    for name, least in RAISED.items():
        # Only the machine's own network namespace has those of the network.
        with contextlib.suppress(FileNotFoundError):
            if int((PROC / name).read_text()) < least:
                (PROC / name).write_text(str(least))


def restore() -> list[str]:
    """Restore the values that differ; returns the names of those that the kernel refused."""
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
