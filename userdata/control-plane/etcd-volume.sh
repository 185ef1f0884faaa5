#!/usr/bin/env bash
# The volume for etcd's data, if there is one. Sourced, never run.

# Etcd would begin with nothing, on the boot disk, and the volume would be deleted in the same update.
refuse_lost_etcd_volume() {
  [[ ! -e $STATE_DIR/etcd-volume || -n ${ETCD_DEVICE:-} ]] ||
    die "etcd's data is on a volume of this machine, but ETCD_DEVICE is empty: controlPlane.etcdVolume has left the configuration. Set it again, then pulumi up: nothing was changed here"
}

# A unit mounts the volume at every boot, and the kubelet requires it: etcd must never start on the
# empty folder below the mount. (fstab would need udev, which containers lack.)
prepare_etcd_volume() {
  [[ -n ${ETCD_DEVICE:-} ]] || return 0
  local unit=openstack-kubernetes-etcd-volume.service begin=start device type text
  step "etcd volume"
  if ! mountpoint --quiet "$ETCD_DATA"; then
    begin=restart # it stays active when the volume is unmounted by anyone else
    [[ ! -d $ETCD_DATA/member ]] ||
      die "etcd has data on the boot disk, but ETCD_DEVICE is set: replace this control plane to move etcd to its volume"
    wait_for 120 "the volume $ETCD_DEVICE" etcd_device >/dev/null ||
      die "no device matches $ETCD_DEVICE: is the volume attached?"
    device=$(etcd_device)
    type=$(content_of "$device")
    case $type in
      '')
        log "making a file system on $device, which is blank"
        run mkfs.ext4 -q -L etcd "$device" || die "mkfs.ext4 failed on $device"
        ;;
      ext4) log "$device has a file system already" ;;
      *) die "$device holds \"$type\", neither blank nor ext4: not touching it" ;;
    esac
    write_file "$STATE_DIR/etcd-volume" 0644 "$(blkid -p -s UUID -o value "$device")"
  fi
  text=$(render "$FILES/openstack-kubernetes-etcd-volume.service" SCRIPTS_DIR)
  write_file "$UNIT_DIR/$unit" 0644 "$text"
  systemctl --quiet enable "$unit" || die "$unit cannot be enabled" "$unit"
  systemctl "$begin" "$unit" || die "the etcd volume cannot be mounted" "$unit"
}

# mount_etcd_volume: the file system that this machine's etcd began with, whatever the name of its
# device is now.
mount_etcd_volume() {
  local uuid device
  uuid=$(<"$STATE_DIR/etcd-volume")
  step "mount the etcd volume"
  mkdir -p -- "$ETCD_DATA"
  ! mountpoint --quiet "$ETCD_DATA" || return 0
  wait_for 120 "the file system $uuid" volume_with "$uuid" >/dev/null ||
    die "no device holds the file system $uuid: is the etcd volume attached? Once it is: systemctl start kubelet"
  device=$(volume_with "$uuid")
  block_folder_below
  e2fsck -p "$device" >&2 || (($? == 1)) || die "the file system on $device must be repaired by hand: e2fsck $device && systemctl start kubelet"
  mount -o noatime "$device" "$ETCD_DATA" || die "cannot mount $device on $ETCD_DATA"
  chmod 0700 "$ETCD_DATA"
}

# A file where etcd needs a folder: should the volume be unmounted while the machine runs, etcd fails
# to start instead of beginning with nothing.
block_folder_below() {
  [[ -e $ETCD_DATA/member ]] || write_file "$ETCD_DATA/member" 0600 "the etcd volume is not mounted"
}

# ETCD_DEVICE is a glob; the whole disk sorts before its partitions.
etcd_device() {
  local matches
  mapfile -t matches < <(compgen -G "$ETCD_DEVICE")
  ((${#matches[@]})) || return 1
  readlink -f -- "${matches[0]}"
}

# volume_with UUID: its device, found without udev too.
volume_with() {
  local device
  findfs "UUID=$1" 2>/dev/null && return
  device=$(etcd_device) || return
  [[ $(blkid -p -s UUID -o value "$device") == "$1" ]] || return 1
  printf '%s\n' "$device"
}

# content_of DEVICE: the type of its content, nothing if it is blank.
content_of() {
  local status=0 found
  # blkid takes a device that it cannot read for a blank one.
  head --bytes=1M -- "$1" >/dev/null || die "$1 cannot be read: not touching it"
  found=$(blkid -p -s TYPE -s PTTYPE -o value "$1") || status=$?
  # 2: no signature found. No other failure permits formatting.
  ((status == 0 || status == 2)) || die "blkid cannot tell what is on $1 (status $status)"
  printf '%s' "${found//$'\n'/ }"
}
