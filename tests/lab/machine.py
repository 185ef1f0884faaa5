"""Snapshots of everything that a lab could leave on its machine, to be compared."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import psutil

from lab.cloud import sysctls
from lab.paths import CACHE

# Counters and random values of the kernel.
DRIFTING = (
    "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/aio-nr",
    "fs/quota/", "kernel/ns_last_pid", "kernel/random/", "kernel/pty/nr", "kernel/perf_event_max_",
    "kernel/threads-max", "kernel/tainted", "vm/stat_refresh", "fs/binfmt_misc/",
    "net/netfilter/nf_conntrack_count",
)  # fmt: skip
# Settings that cannot be restored: see lab/cloud/sysctls.py.
ONE_WAY = ("kernel/unprivileged_bpf_disabled",)
NETWORK = {
    "interfaces": "ip -oneline -brief link",
    "addresses": "ip -oneline -brief address",
    "routes": "ip route show table all",
    "routes of IPv6": "ip -6 route show table all",
    "rules": "ip rule",
    "firewall": "nft list ruleset",
    "old firewall": "iptables-legacy-save",
    "sets": "ipset list -name",
    "bridge firewall": "ebtables -L",
    "loop devices": "losetup --list --noheadings --output NAME,BACK-FILE",
}


def picture() -> dict[str, set[str]]:
    """Take a snapshot: kind -> names of everything of that kind."""
    found = {kind: _lines(command) for kind, command in NETWORK.items()}
    found["network namespaces"] = {str(path) for path in Path("/run/netns").glob("*")}
    found["mounts"] = {
        line.partition(" - ")[0].split()[4]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    }
    found["cgroups"] = {
        str(path) for path in Path("/sys/fs/cgroup").rglob("*lab*") if path.is_dir()
    }
    found["namespaces and programs"] = _processes()
    found["sysctls"] = {f"{name} = {value}" for name, value in _sysctls().items()}
    found["files"] = {
        str(path)
        for folder in ("/etc", "/run", "/run/lock", "/var/lib", "/var/log")
        for path in Path(folder).glob("*")
    }
    return found


def changed(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """Compare two snapshots: kind -> added (+) and removed (-) names."""
    differences = {
        kind: [f"+ {line}" for line in sorted(after[kind] - before[kind])]
        + [f"- {line}" for line in sorted(before[kind] - after[kind])]
        for kind in before
    }
    return {kind: lines for kind, lines in differences.items() if lines}


def _lines(command: str) -> set[str]:
    try:
        result = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return set()
    # Leave out packet counters.
    return {line for line in result.stdout.splitlines() if not line.startswith(("#", ":"))}


def _processes() -> set[str]:
    """Network and process namespaces in use, and programs of the cache folder that run."""
    found = set()
    for process in psutil.process_iter(["exe"]):
        with contextlib.suppress(OSError, psutil.Error):
            for kind in ("net", "pid"):
                found.add(str(Path(f"/proc/{process.pid}/ns/{kind}").readlink()))
            if str(process.info["exe"] or "").startswith(str(CACHE)):
                found.add(process.info["exe"])
    return found


def _sysctls() -> dict[str, str]:
    found = {}
    for path in sysctls.PROC.rglob("*"):
        name = str(path.relative_to(sysctls.PROC))
        if name.startswith((*DRIFTING, *ONE_WAY)) or not path.is_file():
            continue
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found[name] = path.read_text().strip()
    return found
