#!/bin/sh
# LXC calls this before each boot, also when the server reboots itself: make its block devices.
set -eu
devices="$(dirname "$LXC_CONFIG_FILE")/devices"
dev="$LXC_ROOTFS_MOUNT/dev"

# A kubelet holds a raw block volume by a loop device; nothing else would make their nodes in here.
[ -e "$dev/loop-control" ] || mknod -m 660 "$dev/loop-control" c 10 237
number=0
while [ "$number" -lt 96 ]; do
  [ -b "$dev/loop$number" ] || mknod -m 660 "$dev/loop$number" b 7 "$number"
  number=$((number + 1))
done
# Otherwise every server's udev would open those of all others.
mkdir -p "$LXC_ROOTFS_MOUNT/etc/udev/rules.d"
echo 'KERNEL=="loop*", ENV{UDEV_DISABLE_PERSISTENT_STORAGE_RULES_FLAG}="1", OPTIONS:="nowatch"' \
  >"$LXC_ROOTFS_MOUNT/etc/udev/rules.d/00-loop.rules"

[ -f "$devices" ] || exit 0
while read -r name node major minor serial; do
  [ -b "$dev/$node" ] || mknod -m 660 "$dev/$node" b "$major" "$minor"
  ln -sfn "$node" "$dev/$name"
  mkdir -p "$dev/disk/by-id"
  [ "$serial" = - ] || ln -sfn "../../$node" "$dev/disk/by-id/virtio-$serial"
done <"$devices"
