#!/usr/bin/env bash
# The proof that the newest snapshot of this control plane restores. Sourced, never run.

PROOF=$BACKUPS/.proof
PROOF_METRICS=$METRICS_DIR/backup-proof.prom
# Sockets in the folder, which only root can enter: what answers there knows every Secret.
PROOF_CLIENT=unix://client:0
PROOF_PEER=unix://peer:0

prove() {
  local name programs pid revision count found object=''
  find_programs
  find_newest
  revision=$(key_field Revision "$BACKUPS/$name.keys") count=$(key_field Count "$BACKUPS/$name.keys")
  rm -rf -- "$PROOF"
  mkdir -m 0700 -- "$PROOF"
  at_exit "rm -rf -- '$PROOF'"
  need_room_for_proof
  unpack_newest
  cd -- "$PROOF" || return
  start_restored_etcd
  step "count the keys"
  restored_etcdctl --command-timeout=60s "${COUNT_KEYS[@]}" --rev="$revision" >keys ||
    die "the etcd that was restored from $name does not say how many keys it has: the reason is above"
  found=$(key_field Count keys)
  [[ $found == "$count" ]] ||
    die "$name does not contain what etcd had: at revision $revision it has $found keys, and etcd had $count"
  log "$name restores: $count keys at revision $revision, as etcd had"
  report_proof
}

# find_newest: sets `name`, and `object` if there is a bucket.
find_newest() {
  if has_bucket; then
    object=$(own_names bucket | tail -n 1) || die_of_bucket
  fi
  name=${object##*/}
  name=${name%.cms.tar}
  has_bucket || name=$(own_names here | tail -n 1)
  [[ -n $name ]] || die "there is no snapshot of this control plane yet"
  [[ -s $BACKUPS/$name.keys ]] ||
    die "$name cannot be proved, because this machine did not record how many keys etcd had: the next snapshot can be"
}

# The database three times: as snapshot, restored, and compressed; and etcd's log. On a disk that is
# fuller than nine tenths the kubelet evicts pods.
need_room_for_proof() {
  local database size
  database=$(stat -c %s -- "$ETCD_DATA/member/snap/db")
  size=$(df --output=size --block-size=1 -- "$BACKUPS" | tail -n 1)
  need_free "$BACKUPS" $((3 * database + (256 << 20) + size / 10)) "the proof of a snapshot"
}

unpack_newest() {
  local file=$BACKUPS/$name
  if [[ -n $object ]]; then
    step "download $object"
    file=$PROOF/object
    bucket_get "$object" "$file" ||
      die "$object cannot be read from the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: the reason is above"
  fi
  step "unpack $name"
  open_backup "${object:-$name}" "$file" "$PROOF/snapshot" ||
    die "${object:-$file} is damaged, or not encrypted for the key of this cluster: the reason is above"
  rm -f -- "$PROOF/object"
}

# find_programs: sets `programs` to the folder of etcd's programs in the container of the etcd that runs
# here. They run outside of it: the kubelet deletes every pod that it does not know.
find_programs() {
  local etcd process
  await_etcd
  process=$(crictl inspect --output go-template --template '{{.info.pid}}' "$etcd") ||
    die "crictl does not answer" containerd.service
  programs=$ROOT/proc/$process/root/usr/local/bin
  [[ -x $programs/etcdutl ]] || die "the image of etcd has no /usr/local/bin/etcdutl, which restores snapshots"
}

# start_restored_etcd: from the snapshot in the working directory; it ends with this script. Sets `pid`.
start_restored_etcd() {
  local -a member=(--data-dir=data --name=proof --initial-cluster="proof=$PROOF_PEER"
    --initial-advertise-peer-urls="$PROOF_PEER")
  step "restore $name"
  run "$programs/etcdutl" snapshot restore snapshot "${member[@]}" ||
    die "etcdutl could not restore $name: the reason is above"
  rm -f -- snapshot
  setpriv --pdeathsig KILL "$programs/etcd" "${member[@]}" --listen-peer-urls="$PROOF_PEER" \
    --listen-client-urls="$PROOF_CLIENT" --advertise-client-urls="$PROOF_CLIENT" \
    --unsafe-no-fsync --log-level=warn >log 2>&1 </dev/null 9>&- &
  pid=$!
  at_exit "{ kill -KILL $pid; wait $pid; } 2>/dev/null"
  wait_for 900 "the restored etcd" restored_etcd_answers_or_ended || true
  restored_etcd_answers && return
  sed 's/^/  | /' log >&2
  die "the etcd that was restored from $name does not start: its log is above"
}

restored_etcd_answers_or_ended() {
  ! kill -0 "$pid" 2>/dev/null || restored_etcd_answers
}

restored_etcd_answers() {
  restored_etcdctl --command-timeout=2s get health >/dev/null 2>&1
}

restored_etcdctl() {
  "$programs/etcdctl" --endpoints="$PROOF_CLIENT" "$@"
}

# key_field FIELD FILE: of etcdctl's answer.
key_field() {
  sed -n "s/^\"$1\" : //p" "$2"
}

# When the snapshot was taken is in its name. For addons/monitoring/alerts/etcd_backups.py.
report_proof() {
  local taken metric=openstack_kubernetes_etcd_backup_proved_timestamp_seconds
  taken=$(date -u -d "${name:0:8} ${name:9:2}:${name:11:2}:${name:13:2}" +%s)
  write_gauge "$PROOF_METRICS" "$metric" \
    "When the newest snapshot of this control plane that was restored as a test was taken." <<<"$metric $taken"
}
