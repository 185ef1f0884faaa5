#!/usr/bin/env bash
# Snapshots of etcd, on every control plane.
#
#   backup.sh take   one on this disk, and an encrypted copy in the bucket if there is one; deletes the
#                    oldest of this control plane (its timer runs this)
#   backup.sh prove  restores the newest one of this control plane, from the bucket if there is one,
#                    into an etcd of its own, and counts the keys (another timer runs this)
#   backup.sh list   those on this disk, and those of the cluster in the bucket

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../node/node.sh
source "$HERE/node/node.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/bucket.sh
source "$HERE/backup/bucket.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/encryption.sh
source "$HERE/backup/encryption.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/room.sh
source "$HERE/backup/room.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/order.sh
source "$HERE/backup/order.sh"

BACKUPS=$ROOT/var/backups/etcd
ETCD_DATA=$ROOT/var/lib/etcd
METRICS=$METRICS_DIR/backup.prom
# Of etcdctl: the member itself answers, also without a majority.
COUNT_KEYS=(get '' --prefix --count-only --consistency=s --write-out=fields)

# shellcheck source-path=SCRIPTDIR source=../backup/proof.sh
source "$HERE/backup/proof.sh"

take() {
  local etcd name
  await_etcd
  install -d -m 0700 -- "$BACKUPS"
  name=$(date -u +%Y%m%dT%H%M%SZ)-$NODE_NAME.db.gz
  # What an interrupted run and a higher backup.keep have left takes the room that is needed.
  rm -rf -- "$ETCD_DATA"/.snapshot* "$BACKUPS"/.new.*
  flock --nonblock "$RUN_DIR/proof.lock" rm -rf -- "$PROOF" || true # a proof is at work
  prune_here
  need_room
  snapshot "$name"
  prune_here
  # The snapshot of a member that is separated from the others would look newer than it is. A read
  # needs the majority; a question for its health also fails while etcd is full.
  run etcdctl_in "$etcd" get health || die "$name stays on this disk and is not copied: this etcd has no majority, so it may be behind the others"
  report disk
  if ! has_bucket; then
    note disk
    return 0
  fi
  step "copy to the bucket $BUCKET_NAME"
  copy_to_bucket "$name" ||
    die "$name is on this disk, but not in the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: the reason is above"
  report bucket
  note bucket
  prune_bucket
}

# await_etcd: sets `etcd`. One that restarts now, such as in a change of its control plane, is back soon,
# and the next run may be a day away.
await_etcd() {
  wait_for "${ETCD_TIMEOUT:-300}" "etcd" etcd_answers || true # what comes next says why
  find_etcd
}

etcd_answers() {
  etcd=$(container_of etcd) && [[ -n $etcd ]] && etcdctl_in "$etcd" "${COUNT_KEYS[@]}" >/dev/null 2>&1
}

# A snapshot is as large as the database, and etcd must never find its disk full. The compressed copy
# is on the same disk or on another one; the encrypted one is made when the snapshot itself is gone.
need_room() {
  local database copies purpose
  database=$(stat -c %s -- "$ETCD_DATA/member/snap/db")
  purpose="a snapshot, because etcd's database has $database. Free some, or lower backup.keep"
  if [[ $(stat -c %d -- "$ETCD_DATA") == "$(stat -c %d -- "$BACKUPS")" ]]; then
    need_free "$ETCD_DATA" $((2 * database)) "$purpose"
  else
    copies=$database
    ! has_bucket || copies=$((2 * database))
    need_free "$ETCD_DATA" "$database" "$purpose"
    need_free "$BACKUPS" "$copies" "$purpose"
  fi
}

# snapshot NAME: of this member only, so it needs no majority. The keys are counted first: the snapshot
# contains this revision too, so what is restored from it can be compared exactly.
snapshot() {
  local part=$ETCD_DATA/.snapshot
  step "snapshot"
  at_exit "rm -rf -- '$part' '$part.part' '$BACKUPS'/.new.*"
  etcdctl_in "$etcd" "${COUNT_KEYS[@]}" >"$BACKUPS/.new.keys" || die "etcd does not say how many keys it has: the reason is above"
  run etcdctl_in "$etcd" --command-timeout=600s snapshot save "/var/lib/etcd/${part##*/}" || die "etcd could not take a snapshot: the reason is above"
  (umask 077 && gzip -1 <"$part" >"$BACKUPS/.new.$1")
  sync -- "$BACKUPS/.new.$1"
  mv -- "$BACKUPS/.new.keys" "$BACKUPS/$1.keys"
  mv -- "$BACKUPS/.new.$1" "$BACKUPS/$1"
  rm -f -- "$part"
  log "$1: $(stat -c %s -- "$BACKUPS/$1") bytes"
}

# copy_to_bucket NAME: most outages of a store are short, and the next snapshot may be a day away. One that
# answers has decided.
copy_to_bucket() {
  local status
  WAIT_PAUSE=${WAIT_PAUSE:-30} wait_for "${BUCKET_TIMEOUT:-900}" "the bucket $BUCKET_NAME" put_or_refused "$1" &&
    ((status == 0))
}

# put_or_refused NAME: sets `status`.
put_or_refused() {
  status=0
  put_into_bucket "$1" || status=$?
  ((status != UNAVAILABLE))
}

# put_into_bucket NAME: encrypted, for whoever has the bucket has no other part of the cluster.
put_into_bucket() {
  local object=$1.cms.tar
  encrypt_snapshot "$BACKUPS/$1" "$BACKUPS/.new.$object" &&
    bucket_put "$BACKUPS/.new.$object" "$BUCKET_FOLDER/$object" &&
    rm -f -- "$BACKUPS/.new.$object"
}

prune_here() {
  local old names
  names=$(own_names here | head -n "-$BACKUP_KEEP")
  for old in $names; do
    rm -f -- "$BACKUPS/$old" "$BACKUPS/$old.keys"
  done
}

prune_bucket() {
  local old names
  names=$(own_names bucket | head -n "-$BUCKET_KEEP") || die "the bucket $BUCKET_NAME cannot be listed: the reason is above"
  for old in $names; do
    bucket_delete "$old" || die "$old could not be deleted from the bucket: the reason is above"
  done
}

# own_names here|bucket: those of this control plane, the oldest first. In the bucket they are
# encrypted, on the disk they are not.
own_names() {
  "$1" | { grep -E -- "Z-$NODE_NAME\.db\.gz(\.cms\.tar)?\$" || true; } | oldest_first
}

here() {
  [[ ! -d $BACKUPS ]] || (cd -- "$BACKUPS" && compgen -G '*.db.gz') || true # none yet
}

bucket() {
  bucket_list "$BUCKET_FOLDER/"
}

# report PLACE: a new one is there. For addons/monitoring/alerts/etcd_backups.py.
report() {
  local place metric=openstack_kubernetes_etcd_backup_timestamp_seconds
  write_file "$STATE_DIR/backup-$1" 0644 "$(date +%s)"
  for place in disk bucket; do
    [[ $place == disk ]] || has_bucket || continue
    [[ ! -s $STATE_DIR/backup-$place ]] ||
      echo "$metric{place=\"$place\"} $(<"$STATE_DIR/backup-$place")"
  done | write_gauge "$METRICS" "$metric" "When the newest snapshot of this control plane was taken."
}

# note PLACE: on the Node, where `commands.fleet list` reads when and where the last one was taken. An
# API that does not answer is no reason to fail.
note() {
  kube annotate node "$NODE_NAME" --overwrite "openstack-kubernetes-backup=${name%%-*} $1" >/dev/null ||
    log "$NODE_NAME could not be annotated with this snapshot"
}

list() {
  echo "on this control plane, in $BACKUPS:"
  here | oldest_first | sed 's/^/  /'
  has_bucket || return 0
  echo "in the bucket $BUCKET_NAME, for backup.restore:"
  bucket | oldest_first | sed 's/^/  /'
}

# one_at_a_time WHAT: not the lock of other scripts, for one that waits for the cluster must not prevent
# a backup.
one_at_a_time() {
  install -d -m 0700 -- "$RUN_DIR"
  mkdir -p -- "$STATE_DIR"
  exec 9>"$RUN_DIR/$1.lock"
  flock --nonblock 9 || die "another $1 is running"
}

require_root
load_env NODE_NAME BACKUP_KEEP ETCD_CLIENT_PORT
load_bucket
case $VERB in
  take)
    one_at_a_time backup
    take
    ;;
  prove)
    one_at_a_time proof
    prove
    ;;
  list) list ;;
  *) die "usage: backup.sh take|prove|list" ;;
esac
