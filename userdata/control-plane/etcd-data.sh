#!/usr/bin/env bash
# The data of etcd on the disk. Sourced, never run.
#
# A volume outlives its machine, so its content says itself what it is worth:
#   member                 etcd's data; with `unserved` in it, data of an init or a restore that no API
#                          has served as far as is known: it can be made again
#   .restore               the restore that is being made
#   .adopt                 what `control-plane.sh adopt` has chosen to continue from
#   .before-restore-TIME   what something else has replaced
#   .unserved-TIME         what was made again, after an interruption
# `restoring` in STATE_DIR says that the Nodes of the earlier control planes are still to be deleted.

ETCD_DATA=$ROOT/var/lib/etcd
UNSERVED=$ETCD_DATA/member/unserved
RESTORE_WORK=$ETCD_DATA/.restore
ADOPT=$ETCD_DATA/.adopt
SET_ASIDE=$ETCD_DATA/.before-restore-
UNSERVED_ASIDE=$ETCD_DATA/.unserved-
RESTORING=$STATE_DIR/restoring
BEGIN_EMPTY='pulumi config set --path controlPlane.beginEmpty true'

# old_data: the folder that may be the last copy of the cluster; as long as no other data has
# replaced it, that is what was set aside last.
old_data() {
  if [[ -d $ETCD_DATA/member && ! -e $UNSERVED ]]; then
    printf '%s\n' "$ETCD_DATA/member"
  else
    newest_aside "$SET_ASIDE"
  fi
}

newest_unserved() {
  newest_aside "$UNSERVED_ASIDE"
}

# newest_aside PREFIX: the folder that was set aside last.
newest_aside() {
  compgen -G "$1*" | sort | tail -n 1
}

# last_write FOLDER: the time, in the format of the names of backups.
last_write() {
  local newest
  newest=$(find "$1" -type f -printf '%T@\n' | sort -n | tail -n 1)
  date -u -d "@${newest:-0}" +%Y%m%dT%H%M%SZ
}

# set_aside FOLDER [PREFIX]: by one rename, so that it is complete here or there after any
# interruption.
set_aside() {
  local aside
  aside=${2:-$SET_ASIDE}$(date -u +%Y%m%dT%H%M%S.%3NZ)
  mv -T -- "$1" "$aside"
  sync -- "$ETCD_DATA"
  log "the old data is kept in $aside until this control plane is replaced. To free its space: rm -r $aside"
}

# The API may have served it all the same: the kubelet continues after a script was killed.
set_aside_unserved() {
  [[ -e $UNSERVED ]] || return 0
  set_aside "$ETCD_DATA/member" "$UNSERVED_ASIDE"
}

fresh_work() {
  install -d -m 0700 -- "$ETCD_DATA"
  rm -rf -- "$RESTORE_WORK" "$ETCD_DATA"/.snapshot*
  mkdir -m 0700 -- "$RESTORE_WORK"
}

# The API has come up with this data: from now on it is neither dropped nor made again. The boot disk
# is told first, because without `unserved` the data would look like that of an interrupted init.
mark_served() {
  : >"$STATE_DIR/served"
  sync -- "$STATE_DIR"
  rm -f -- "$UNSERVED"
  [[ ! -d $ADOPT ]] || set_aside "$ADOPT"
  sync --file-system -- "$ETCD_DATA"
}

# All but what was adopted.
clear_etcd_data() {
  rm -rf -- "$ETCD_DATA/member" "$ETCD_DATA"/.snapshot* "$RESTORE_WORK" "$SET_ASIDE"* "$UNSERVED_ASIDE"*
  rm -rf -- "$RESTORING" "$ETCD_DATA/lost+found"
}

# kubeadm wants the folder empty; what e2fsck has saved may be of use.
clear_lost_and_found() {
  [[ ! -d $ETCD_DATA/lost+found ]] || rmdir -- "$ETCD_DATA/lost+found" ||
    die "$ETCD_DATA/lost+found has files that e2fsck saved from a damaged file system: look at them, rm -r $ETCD_DATA/lost+found here, then pulumi up"
}

# etcd data of an earlier cluster may be its last copy.
refuse_orphaned_data() {
  local data verb=$SCRIPTS_DIR/control-plane/control-plane.sh newest='' backup='' allow=''
  data=$(old_data) || return 0
  if has_bucket; then
    newest=$(newest_backup) || log "the bucket cannot be listed, so it is not known whether there are backups"
  fi
  [[ -z $newest ]] ||
    backup=" Or continue from a backup, the newest is $newest; the data here is then set aside: pulumi config set --path backup.restore $newest, then pulumi up."
  [[ $INITIALIZE != restore ]] || allow="$BEGIN_EMPTY, "
  die "no control plane answers, but $data holds the data of an etcd that ran, last written $(last_write "$data"): not overwriting it. Bring another control plane back. Or continue from this data: $verb adopt here, then pulumi up.$backup Or, if it is worthless: $verb reset here, ${allow}then pulumi up"
}

# Someone has chosen this data to continue from, and a cluster answers all the same.
refuse_adopted_data() {
  [[ ! -d $ADOPT ]] ||
    die "$ADOPT was adopted, but another control plane answers: not joining over it. To continue from the adopted data, delete the servers of all other control planes, then pulumi up. To join the cluster that answers, without this data: rm -r $ADOPT here, then pulumi up"
}

# A cluster that began after this data was last written is another one, which began empty. Joining it
# would overwrite what may be the last copy of the old one.
refuse_older_cluster_data() {
  local data began written
  data=$(old_data) || return 0
  began=$(kube get namespace kube-system -o jsonpath='{.metadata.creationTimestamp}') ||
    die "the API does not say when the cluster began"
  began=${began//[-:]/}
  written=$(last_write "$data")
  [[ $written < $began ]] || return 0
  die "$data was last written $written, before the cluster that answers began ($began): it belongs to an earlier cluster and may be its last copy. Not joining over it. To continue from it instead, see docs/operations.md, Lost control planes. Or, if it is worthless: $SCRIPTS_DIR/control-plane/control-plane.sh reset here, then pulumi up"
}
