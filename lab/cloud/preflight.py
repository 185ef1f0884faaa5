"""Checks of the machine, made before anything is changed."""

from __future__ import annotations

import os
import shutil
import subprocess

import psutil

from lab.cloud.layout import INSTALL
from lab.errors import LabError
from lab.paths import CACHE, ensure

GIB = 1024**3
# A 24 GiB machine reports a little less.
LEAST_MEMORY = 20 * GIB
LEAST_DISK = 20 * GIB
# With everything installed, only servers need more.
LEAST_DISK_INSTALLED = 10 * GIB

MODULES = (
    "br_netfilter",
    "overlay",
    "loop",
    "veth",
    "bridge",
    "vxlan",
    "nf_tables",
    "ip_set",
    "xfs",
)
# Kernel feature -> a command that fails without it, run in namespaces of its own.
FEATURES = {
    "veth (CONFIG_VETH)": "ip link add t0 type veth peer name t1",
    "bridge (CONFIG_BRIDGE)": "ip link add t2 type bridge",
    "vxlan (CONFIG_VXLAN)": "ip link add t3 type vxlan id 1 dstport 4789",
    "bridge firewall (CONFIG_BRIDGE_NETFILTER)": (
        "test -e /proc/sys/net/bridge/bridge-nf-call-iptables"
    ),
    "nf_tables (CONFIG_NF_TABLES, CONFIG_NFT_COMPAT)": (
        "iptables -A FORWARD -m physdev --physdev-is-bridged -j ACCEPT"
    ),
    "NAT (CONFIG_NF_NAT)": "iptables -t nat -A POSTROUTING -j MASQUERADE",
    "connection tracking zones (CONFIG_NETFILTER_XT_TARGET_CT)": (
        "iptables -t raw -A PREROUTING -j CT --zone 1"
    ),
    "ebtables (CONFIG_BRIDGE_NF_EBTABLES or its nf_tables form)": "ebtables -L",
    "ipset (CONFIG_IP_SET)": "ipset create t4 hash:net",
    "overlay (CONFIG_OVERLAY_FS)": (
        "mount -t tmpfs tmpfs /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && "
        "mount -t overlay -o lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w overlay /mnt/m"
    ),
    "xfs (CONFIG_XFS_FS)": "grep -qw xfs /proc/filesystems",
    "loop devices (CONFIG_BLK_DEV_LOOP)": "test -c /dev/loop-control",
    "process namespaces (CONFIG_PID_NS)": "test -e /proc/self/ns/pid",
}


def check_root() -> None:
    """Require root."""
    if os.geteuid() != 0:
        raise LabError(
            "the lab makes namespaces and mounts: run it as root (for example with sudo)"
        )


def check_machine() -> None:
    """Require enough memory and disk; needs nothing installed."""
    memory = psutil.virtual_memory().total
    if memory < LEAST_MEMORY:
        raise LabError(
            f"this machine has {memory / GIB:.1f} GiB of memory; the cloud with an HA cluster "
            f"needs {LEAST_MEMORY // GIB}: use a larger machine"
        )
    least = LEAST_DISK_INSTALLED if INSTALL.exists() else LEAST_DISK
    free = shutil.disk_usage(ensure(CACHE)).free
    if free < least:
        raise LabError(
            f"{free / GIB:.1f} GiB are free below {CACHE}, the lab needs {least // GIB}: free "
            "some, or set OPENSTACK_KUBERNETES_LAB_CACHE to a folder on a larger disk"
        )


def check_kernel() -> None:
    """Require every kernel feature, by trying each; needs the Debian packages."""
    if shutil.which("modprobe"):
        # A feature that is built in has no module, so errors do not matter.
        subprocess.run(["modprobe", "--all", "--quiet", *MODULES], capture_output=True)
    missing = []
    for feature, command in FEATURES.items():
        tried = subprocess.run(
            ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", command],
            capture_output=True,
            text=True,
        )
        if tried.returncode != 0:
            said = (tried.stderr.strip().splitlines() or ["no message"])[-1]
            missing.append(f"{feature}: {said}")
    if missing:
        raise LabError(
            "the kernel lacks features that the lab needs; load the modules or use another "
            "kernel:\n  " + "\n  ".join(missing)
        )
