#!/bin/sh
# LXC calls this before each boot, also when the server reboots itself: make its block devices.
set -eu
devices="$(dirname "$LXC_CONFIG_FILE")/devices"
[ -f "$devices" ] || exit 0
dev="$LXC_ROOTFS_MOUNT/dev"
while read -r name node major minor serial; do
  [ -b "$dev/$node" ] || mknod -m 660 "$dev/$node" b "$major" "$minor"
  ln -sfn "$node" "$dev/$name"
  mkdir -p "$dev/disk/by-id"
  [ "$serial" = - ] || ln -sfn "../../$node" "$dev/disk/by-id/virtio-$serial"
done <"$devices"
