"""Disks as plain files: the root prepared before a boot, volumes through loop devices."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .command import CommandError, attempt, run

# In a mount namespace of its own: whatever happens, nothing stays mounted.
_PREPARE = """
tries=10
until said=$(mount -o loop,noatime "$0" "$1" 2>&1); do
    tries=$((tries - 1))
    # Somebody else has taken the loop device at the same moment.
    case $said in *"loop device"*) [ "$tries" -gt 0 ] && sleep 0.2 && continue ;; esac
    echo "$said" >&2
    exit 32
done
if [ -n "$2" ]; then
    seed="$1/var/lib/cloud/seed"
    rm -rf "$seed/config_drive"
    mkdir -p "$seed"
    cp -r "$2" "$seed/config_drive"
    chmod -R go= "$seed/config_drive"
fi
umount "$1"
"""


class UnusableDisk(Exception):
    """The disk does not hold what a server can boot from."""


def prepare(root: Path, mount_point: Path, seed: Path | None) -> None:
    """Grow the root file system to the size of its disk and put the config drive into it."""
    mount_point.mkdir(exist_ok=True)
    _fit_file_system(root)
    script = ("sh", "-ec", _PREPARE, root, mount_point, seed or "")
    try:
        run("unshare", "--mount", "--propagation", "private", "--", *script)
    except CommandError as error:
        if error.exit_code == 32:
            raise UnusableDisk(
                "the disk cannot be mounted: servers here are containers and boot from a Linux "
                f"file system without a partition table ({error.stderr.strip()})"
            ) from error
        raise


def _fit_file_system(disk: Path) -> None:
    """Give ext4 all of its disk. Before it is mounted: later that needs a capability more."""
    try:
        header = run("dumpe2fs", "-h", disk)
    except CommandError:
        return
    fields = dict(line.split(":", 1) for line in header.splitlines() if ":" in line)
    block = int(fields["Block size"])
    if int(fields["Block count"]) < disk.stat().st_size // block:
        # 1: something was repaired, for example the journal of a server that was killed.
        run("e2fsck", "-f", "-p", disk, ok=(0, 1))
        run("resize2fs", disk)
    if "nobarrier" not in fields.get("Default mount options", ""):
        # An fsync ends in the machine's cache: a lab's disk need not outlive the machine, and
        # etcd is not slowed by what else writes. In the file system, for LXC forgets the mount
        # options when a server reboots itself.
        run("tune2fs", "-o", "nobarrier", disk)


def attach(file: Path) -> str:
    """The loop device of a file; it is attached when it is not yet."""
    return attached(file) or run("losetup", "--find", "--show", file).strip()


def attached(file: Path) -> str:
    """The loop device of a file, or nothing. By inode: names differ between mount namespaces."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return ""
    columns = "NAME,BACK-INO,BACK-MAJ:MIN,BACK-FILE"
    listing = run("losetup", "--json", "--list", "--output", columns)
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    for loop in json.loads(listing or "{}").get("loopdevices", []):
        same_device = "".join(str(loop["back-maj:min"]).split()) == device
        # One that is still open keeps a file that is gone, whose inode may be another's by now.
        gone = str(loop["back-file"]).endswith("(deleted)")
        if same_device and int(loop["back-ino"]) == status.st_ino and not gone:
            return str(loop["name"])
    return ""


def detach(file: Path) -> None:
    """Detach the file's loop device; at its last close when it is still in use."""
    loop = attached(file)
    if loop:
        attempt("losetup", "--detach", loop)


def refresh(file: Path) -> None:
    """Let the loop device see that its file has grown."""
    loop = attached(file)
    if loop:
        run("losetup", "--set-capacity", loop)


def line(name: str, loop: str, serial: str) -> str:
    """The line from which autodev.sh makes the device in a server."""
    number = os.stat(loop).st_rdev
    # Device names have room for 20 characters of a serial, as virtio's have.
    return f"{name} {Path(loop).name} {os.major(number)} {os.minor(number)} {serial[:20] or '-'}\n"


def reveal(dev: Path, name: str, loop: str, serial: str) -> None:
    """Make the device in a running server's /dev."""
    node = dev / Path(loop).name
    if not node.exists():
        os.mknod(node, 0o60660, os.stat(loop).st_rdev)
    _link(dev / name, node.name)
    by_id = dev / "disk" / "by-id"
    by_id.mkdir(parents=True, exist_ok=True)
    _link(by_id / f"virtio-{serial[:20]}", f"../../{node.name}")


def hide(dev: Path, name: str, serial: str) -> None:
    """Remove the device's names from a running server's /dev; the loop device may be used again."""
    for path in (dev / "disk" / "by-id" / f"virtio-{serial[:20]}", dev / name):
        path.unlink(missing_ok=True)


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
