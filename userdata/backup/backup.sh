#!/usr/bin/env bash
# Snapshots of etcd, on every control plane.
#
#   backup.sh take   one on this disk, and a copy in the bucket if there is one; deletes the oldest of
#                    this control plane (its timer runs this)
#   backup.sh list   those on this disk, and those of the cluster in the bucket

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../node/node.sh
source "$HERE/node/node.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/bucket.sh
source "$HERE/backup/bucket.sh"

BACKUPS=$ROOT/var/backups/etcd
ETCD_DATA=$ROOT/var/lib/etcd
METRICS=$METRICS_DIR/backup.prom

take() {
  local etcd name
  etcd=$(container_of etcd) || die "crictl does not answer" containerd.service
  [[ -n $etcd ]] || die "no etcd runs on this machine" kubelet.service
  install -d -m 0700 -- "$BACKUPS"
  name=$(date -u +%Y%m%dT%H%M%SZ)-$NODE_NAME.db.gz
  need_room
  snapshot "$etcd" "$name"
  prune_here
  # The snapshot of a member that is separated from the others would look newer than it is.
  run etcdctl "$etcd" endpoint health || die "$name stays on this disk and is not copied: this etcd has no majority, so it may be behind the others"
  report disk
  has_bucket || return 0
  step "copy to the bucket $BUCKET_NAME"
  bucket_put "$BACKUPS/$name" "$(bucket_folder)/$name" ||
    die "$name is on this disk, but not in the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: the reason is above"
  report bucket
  prune_bucket
}

# A snapshot is as large as the database, and etcd must never find its disk full. The compressed copy
# is on the same disk or on another one.
need_room() {
  local database disk free needed
  database=$(stat -c %s -- "$ETCD_DATA/member/snap/db")
  needed=$database
  [[ $(stat -c %d -- "$ETCD_DATA") != "$(stat -c %d -- "$BACKUPS")" ]] || needed=$((2 * database))
  for disk in "$ETCD_DATA" "$BACKUPS"; do
    free=$(df --output=avail --block-size=1 -- "$disk" | tail -n 1)
    ((free > needed)) ||
      die "no space for a snapshot: $disk has $free bytes left, and needs $needed, because etcd's database has $database. Free some, or lower backup.keep"
  done
}

# snapshot CONTAINER NAME: of this member only, so it needs no majority.
snapshot() {
  local part=$ETCD_DATA/.snapshot
  step "snapshot"
  rm -f -- "$part"*
  at_exit "rm -f -- '$part' '$part.part' '$BACKUPS'/.new.*"
  run etcdctl "$1" --command-timeout=600s snapshot save "/var/lib/etcd/${part##*/}" || die "etcd could not take a snapshot: the reason is above"
  (umask 077 && gzip -1 <"$part" >"$BACKUPS/.new.$2")
  sync -- "$BACKUPS/.new.$2"
  mv -- "$BACKUPS/.new.$2" "$BACKUPS/$2"
  rm -f -- "$part"
  log "$2: $(stat -c %s -- "$BACKUPS/$2") bytes"
}

# etcdctl CONTAINER ARGUMENT...
etcdctl() {
  local -a etcdctl
  etcdctl_command "${@:2}"
  crictl exec "$1" "${etcdctl[@]}"
}

# Their names begin with the time.
prune_here() {
  local old names
  names=$(own_names here | head -n "-$BACKUP_KEEP")
  for old in $names; do
    rm -f -- "$BACKUPS/$old"
  done
}

prune_bucket() {
  local old names
  names=$(own_names bucket | head -n "-$BUCKET_KEEP") || die "the bucket $BUCKET_NAME cannot be listed: the reason is above"
  for old in $names; do
    bucket_delete "$old" || die "$old could not be deleted from the bucket: the reason is above"
  done
}

# own_names here|bucket: those of this control plane, the oldest first.
own_names() {
  "$1" | { grep -- "Z-$NODE_NAME\.db\.gz\$" || true; } | sort
}

here() {
  [[ ! -d $BACKUPS ]] || (cd -- "$BACKUPS" && compgen -G '*.db.gz') || true # none yet
}

bucket() {
  bucket_list "$(bucket_folder)/"
}

# report PLACE: a new one is there. For addons/monitoring/alerts.py.
report() {
  local place metric=openstack_kubernetes_etcd_backup_timestamp_seconds
  mkdir -p -- "$METRICS_DIR"
  date +%s >"$STATE_DIR/backup-$1"
  {
    echo "# HELP $metric When the newest snapshot of this control plane was taken."
    echo "# TYPE $metric gauge"
    for place in disk bucket; do
      [[ $place == disk ]] || has_bucket || continue
      [[ ! -e $STATE_DIR/backup-$place ]] ||
        echo "$metric{place=\"$place\"} $(<"$STATE_DIR/backup-$place")"
    done
  } >"$METRICS.new"
  mv -- "$METRICS.new" "$METRICS"
}

list() {
  echo "on this control plane, in $BACKUPS:"
  here | sort | sed 's/^/  /'
  has_bucket || return 0
  echo "in the bucket $BUCKET_NAME, for backup.restore:"
  bucket | sort | sed 's/^/  /'
}

require_root
load_env NODE_NAME CLUSTER_NAME BACKUP_KEEP ETCD_CLIENT_PORT
load_bucket
case $VERB in
  take)
    # Not the lock of other scripts: one that waits for the cluster must not prevent a backup.
    mkdir -p -- "$RUN_DIR" "$STATE_DIR"
    exec 9>"$RUN_DIR/backup.lock"
    flock --nonblock 9 || die "another backup is running"
    take
    ;;
  list) list ;;
  *) die "usage: backup.sh take|list" ;;
esac
