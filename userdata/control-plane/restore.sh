#!/usr/bin/env bash
# Begins a cluster with a snapshot of etcd, when all control planes are lost. Sourced, never run.

# newest_backup: its name, if there is one.
newest_backup() {
  local names
  names=$(bucket_list "$BUCKET_FOLDER/") || return
  oldest_first <<<"$names" | tail -n 1
}

# No one wants an empty cluster in place of one that could be restored.
refuse_forgotten_backups() {
  local newest allow=''
  has_bucket || return 0
  step "look for backups of this cluster"
  newest=$(newest_backup) || die_of_bucket
  [[ -n $newest ]] || return 0
  [[ $INITIALIZE != restore ]] || allow="$BEGIN_EMPTY, "
  die "no control plane answers, but there are backups of this very cluster, the newest is $newest. To continue from it: pulumi config set --path backup.restore $newest, then pulumi up. To begin with an empty cluster instead, delete them from the bucket $BUCKET_NAME, ${allow}then pulumi up"
}

# A setting that was left in place must not bring an old snapshot back when control planes are lost
# the next time, or only do not answer.
refuse_repeated_restore() {
  local noted
  noted=$(bucket_list "restored/$RESTORE") || die_of_bucket
  [[ -z $noted ]] ||
    die "this cluster has begun with $RESTORE already: remove backup.restore, or set it to a newer one. To go back to the same one again, delete $noted from the bucket $BUCKET_NAME"
}

# restore_snapshot: RESTORE replaces whatever data is there.
restore_snapshot() {
  step "restore $RESTORE"
  has_bucket || die "backup.restore is set, but no backup.bucket"
  [[ $RESTORE == "$BUCKET_FOLDER/"* ]] ||
    die "$RESTORE does not belong to this cluster, whose backups are in $BUCKET_FOLDER/"
  refuse_repeated_restore
  fresh_work
  bucket_get "$RESTORE" "$RESTORE_WORK/object" ||
    die "$RESTORE cannot be read from the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: the reason is above"
  open_backup "$RESTORE" "$RESTORE_WORK/object" "$RESTORE_WORK/snapshot" ||
    die "$RESTORE is damaged or not encrypted for the key of this cluster, or $ETCD_DATA is full: the reason is above"
  rm -f -- "$RESTORE_WORK/object"
  # It compares the snapshot with the sum at its end.
  begin_with_snapshot "$RESTORE" "$RESTORE"
}

# begin_with_snapshot WHAT BACKUP [OPTION]...: the snapshot in the work folder becomes the data of an
# etcd with this machine as its only member; BACKUP is its name in the bucket, or empty. Kubelets and
# others that still run must never see a revision twice, whatever was restored before, so the revision
# is raised to the time: no cluster writes a million times a second. The token makes it another cluster:
# members of the lost one that start again do not take this one for theirs.
begin_with_snapshot() {
  local what=$1 backup=$2 peer=https://$NODE_IP:$ETCD_PEER_PORT now revision bump
  shift 2
  now=$(date +%s)000000
  etcdutl "$RESTORE_WORK" snapshot status /restore/snapshot --write-out=json ||
    die "etcdutl could not read $what: the reason is above"
  revision=$(grep -m 1 -oP '"revision":\K[0-9]+' "$RESTORE_WORK/etcdutl.log") ||
    die "etcdutl does not say at which revision $what is"
  bump=$((now - revision))
  # Of a clock that was ahead when the snapshot was restored the last time.
  ((bump > 0)) || bump=$now
  etcdutl "$RESTORE_WORK" snapshot restore /restore/snapshot --data-dir=/restore/data --name="$NODE_NAME" \
    --initial-cluster="$NODE_NAME=$peer" --initial-advertise-peer-urls="$peer" \
    --initial-cluster-token="$CLUSTER_NAME-$now" \
    --bump-revision="$bump" --mark-compacted "$@" ||
    die "etcdutl could not restore $what: the reason is above"
  : >"$RESTORE_WORK/data/member/${UNSERVED##*/}"
  sync --file-system -- "$ETCD_DATA"
  printf '%s\n' "$backup" >"$RESTORING"
  sync --file-system -- "$STATE_DIR"
  [[ ! -d $ETCD_DATA/member ]] || set_aside "$ETCD_DATA/member"
  mv -T -- "$RESTORE_WORK/data/member" "$ETCD_DATA/member"
  sync -- "$ETCD_DATA"
  rm -rf -- "$RESTORE_WORK"
}

# The control planes in the snapshot are machines that are lost, also the one of this name.
finish_restore() {
  local backup
  [[ -e $RESTORING ]] || return 0
  step "delete the Nodes of the lost control planes"
  wait_for 60 "the API" delete_control_planes || die "the Nodes of the earlier control planes could not be deleted"
  register_node
  # The configuration may name another one by now, or none.
  backup=$(<"$RESTORING")
  if [[ -n $backup ]] && has_bucket; then
    bucket_put "$RESTORING" "restored/$backup" || die "the note that $backup was restored could not be written to the bucket $BUCKET_NAME: the reason is above"
  fi
  rm -f -- "$RESTORING"
}

delete_control_planes() {
  kube delete node --selector=node-role.kubernetes.io/control-plane --ignore-not-found >/dev/null
}
