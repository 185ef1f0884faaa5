#!/usr/bin/env bash
# Begins a cluster with etcd's data on the volume, when all control planes are lost. Sourced, never
# run.

# adopt [FOLDER]: the next run continues from the data there, else from what is on this disk. The
# folder is moved at once: going back takes a command, and no later loss finds it again.
adopt() {
  local data=${1:-}
  may_initialize ||
    die "only the first control plane can continue from old data: copy etcd's database there (docs/operations.md, Lost control planes), and run this there"
  [[ ! -e $MANIFESTS/etcd.yaml ]] ||
    die "an etcd is set up on this machine already. If it is the last one of its cluster: $SCRIPTS_DIR/control-plane/control-plane.sh alone"
  if [[ -d $ADOPT ]]; then
    log "the next pulumi up continues from $ADOPT"
    return
  fi
  refuse_if_others_live
  data=${data%/}
  [[ -n $data ]] || data=$(old_data) || die "$ETCD_DATA holds no data of an etcd that ran"
  [[ ${data%/*} == "$ETCD_DATA" && -s $data/snap/db ]] ||
    die "$data is no folder in $ETCD_DATA with etcd's database, snap/db"
  step "adopt $data, last written $(last_write "$data")"
  mv -T -- "$data" "$ADOPT"
  sync -- "$ETCD_DATA"
  log "the next pulumi up continues from it. To undo this: mv $ADOPT $data"
}

# restore_adopted: the database is restored like a snapshot, so that it forgets the other members. It
# is only read, so another name for it in the work folder is enough.
restore_adopted() {
  step "continue from the data in $ADOPT"
  [[ -z ${RESTORE:-} ]] ||
    die "$ADOPT was adopted, and backup.restore is set. For the adopted data: pulumi config rm --path backup.restore, then pulumi up. For the snapshot: mv $ADOPT ${SET_ASIDE}adopted here, then pulumi up"
  fresh_work
  ln -- "$ADOPT/snap/db" "$RESTORE_WORK/snapshot"
  begin_with_snapshot "$ADOPT/snap/db" '' --skip-hash-check # only a snapshot ends with a sum
}
