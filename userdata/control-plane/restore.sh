#!/usr/bin/env bash
# What brings a cluster back: a snapshot of etcd or the data on a volume when all control planes are
# gone, the last of them when the others are. Sourced, never run.
#
# A volume outlives its machine, so what is on it says itself what it is worth:
#   member                 etcd's data; with `unserved` in it, data that was made out of something else
#                          or by an init, and that no API has served: it can be made again
#   .restore               what is being made
#   .adopt                 what `control-plane.sh adopt` wants to be gone on from
#   .before-restore-TIME   what something else took the place of
# `restoring` in STATE_DIR says that the Nodes of the earlier control planes are still to be
# deleted.

ETCD_DATA=$ROOT/var/lib/etcd
UNSERVED=$ETCD_DATA/member/unserved
RESTORE_WORK=$ETCD_DATA/.restore
ADOPT=$ETCD_DATA/.adopt
SET_ASIDE=$ETCD_DATA/.before-restore-
RESTORING=$STATE_DIR/restoring
RESTORE_POD=openstack-kubernetes-restore
# A line of etcd's manifest, while the verb "alone" is at work.
ALONE='    - --force-new-cluster'

# --- what is on the disk ----------------------------------------------------------------------

# old_data: the folder that may be the last copy of the cluster. Where no other data is in its place
# yet, that is what was set aside last.
old_data() {
  local aside
  if [[ -d $ETCD_DATA/member && ! -e $UNSERVED ]]; then
    printf '%s\n' "$ETCD_DATA/member"
  else
    aside=$(compgen -G "$SET_ASIDE*" | sort | tail -n 1) || return
    printf '%s\n' "$aside"
  fi
}

# last_write FOLDER: when, as the names of backups have it.
last_write() {
  local newest
  newest=$(find "$1" -type f -printf '%T@\n' | sort -n | tail -n 1)
  date -u -d "@${newest:-0}" +%Y%m%dT%H%M%SZ
}

# set_aside FOLDER: by one rename, so that it is whole here or there after any cut.
set_aside() {
  local aside
  aside=$SET_ASIDE$(date -u +%Y%m%dT%H%M%S.%3NZ)
  mv -T -- "$1" "$aside"
  sync -- "$ETCD_DATA"
  log "the old data is kept in $aside until this control plane is replaced. To have its room: rm -r $aside"
}

# By a rename first: what is half deleted must not pass for somebody's data.
drop_unserved() {
  [[ -e $UNSERVED ]] || return 0
  log "dropping data in $ETCD_DATA that no API has served"
  fresh_work
  mv -T -- "$ETCD_DATA/member" "$RESTORE_WORK/unserved"
  rm -rf -- "$RESTORE_WORK"
}

fresh_work() {
  install -d -m 0700 -- "$ETCD_DATA"
  rm -rf -- "$RESTORE_WORK" "$ETCD_DATA"/.snapshot*
  mkdir -m 0700 -- "$RESTORE_WORK"
}

# The API has come up on this data: it is neither thrown away from now on nor made once more. The
# boot disk knows first, as this machine would take data without `unserved` for what a cut-off init
# left.
note_served() {
  : >"$STATE_DIR/served"
  sync -- "$STATE_DIR"
  rm -f -- "$UNSERVED"
  [[ ! -d $ADOPT ]] || set_aside "$ADOPT"
  sync --file-system -- "$ETCD_DATA"
}

# etcd data of an earlier life may be the last copy of the cluster.
refuse_orphaned_data() {
  local data verb=$LIB_DIR/control-plane/control-plane.sh newest='' backup=''
  data=$(old_data) || return 0
  if has_bucket; then
    newest=$(newest_backup) || log "whether there are backups is not known"
  fi
  [[ -z $newest ]] ||
    backup=" Or go on from a backup, the newest one $newest, and the data here is set aside: pulumi config set --path backup.restore $newest, then pulumi up."
  die "no control plane answers, but $data holds the data of an etcd that ran, last written $(last_write "$data"): not overwriting it. Bring another control plane back. Or go on from this data: $verb adopt here, then pulumi up.$backup Or, if it is worth nothing: $verb reset here, then pulumi up"
}

# A cluster that began after this data was last written is another one, which began empty: nobody
# joins it over what may be the last copy of the old one.
refuse_older_data() {
  local data began written
  data=$(old_data) || return 0
  began=$(kube get namespace kube-system -o jsonpath='{.metadata.creationTimestamp}') ||
    die "the cluster does not say when it began"
  began=${began//[-:]/}
  written=$(last_write "$data")
  [[ $written < $began ]] || return 0
  die "$data was last written $written, before the cluster that answers began ($began): it is an earlier cluster's, perhaps the last copy. Not joining over it. To go on from it instead, see docs/operations.md, Lost control planes; or, if it is worth nothing: $LIB_DIR/control-plane/control-plane.sh reset here, then pulumi up"
}

# --- from a snapshot --------------------------------------------------------------------------

# newest_backup: its name, if there is one.
newest_backup() {
  local names
  names=$(bucket_list "$(bucket_folder)/") || return
  sort <<<"$names" | tail -n 1
}

# An empty cluster in the place of one that could be brought back is what nobody wants.
refuse_to_forget() {
  local newest
  has_bucket || return 0
  step "look for backups of this cluster"
  newest=$(newest_backup) || die_of_bucket
  [[ -n $newest ]] || return 0
  die "no control plane answers, but there are backups of this very cluster, the newest one $newest. To go on from it: pulumi config set --path backup.restore $newest, then pulumi up. To begin with an empty cluster instead, delete them from the bucket $BUCKET_NAME"
}

# A setting that was left in place must not bring an old snapshot back when control planes are lost
# the next time, or just do not answer.
refuse_to_repeat() {
  local noted
  noted=$(bucket_list "restored/$RESTORE") || die_of_bucket
  [[ -z $noted ]] ||
    die "this cluster has begun with $RESTORE already: take backup.restore out, or set it to a newer one. To go back to the same one again, delete $noted from the bucket $BUCKET_NAME"
}

# restore_etcd: RESTORE takes the place of whatever data is there.
restore_etcd() {
  step "restore $RESTORE"
  has_bucket || die "backup.restore is set, but no backup.bucket"
  [[ $RESTORE == "$(bucket_folder)/"* ]] ||
    die "$RESTORE is not of this cluster, whose backups are in $(bucket_folder)/"
  refuse_to_repeat
  fresh_work
  bucket_get "$RESTORE" "$RESTORE_WORK/snapshot.gz" ||
    die "$RESTORE cannot be read from the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: see why above"
  gzip -d -- "$RESTORE_WORK/snapshot.gz" || die "$RESTORE is damaged, or $ETCD_DATA is full: see why above"
  # It compares the snapshot with the sum at its end.
  begin_with_snapshot "$RESTORE"
}

# begin_with_snapshot WHAT [OPTION]...: the snapshot in the work folder becomes the data of an etcd
# with this machine as its only member. Kubelets and others that run on must never see a revision
# twice, not after a second restore either: nobody writes a million times a second.
begin_with_snapshot() {
  local what=$1
  shift
  etcdutl "$RESTORE_WORK" snapshot restore /restore/snapshot --data-dir=/restore/data --name="$NODE_NAME" \
    --initial-cluster="$NODE_NAME=https://$NODE_IP:2380" \
    --initial-advertise-peer-urls="https://$NODE_IP:2380" \
    --bump-revision="$(date +%s)000000" --mark-compacted "$@" ||
    die "etcdutl could not restore $what: see why above"
  : >"$RESTORE_WORK/data/member/${UNSERVED##*/}"
  sync --file-system -- "$ETCD_DATA"
  : >"$RESTORING"
  sync -- "$STATE_DIR"
  [[ ! -d $ETCD_DATA/member ]] || set_aside "$ETCD_DATA/member"
  mv -T -- "$RESTORE_WORK/data/member" "$ETCD_DATA/member"
  sync -- "$ETCD_DATA"
  rm -rf -- "$RESTORE_WORK"
}

# etcdutl FOLDER ARGUMENT...: with FOLDER as /restore, in a container of kubeadm's etcd image, or of
# the etcd project's. By crictl alone: no kubelet runs here yet, and ctr cannot mount an image in
# containerd 2.2.
etcdutl() {
  local work=$1 image images
  shift
  images=$(kubeadm config images list --config "$FOLDER/kubeadm-init.yaml") || die "kubeadm does not name its images"
  at_exit remove_restore_pod
  for image in $(grep '/etcd:' <<<"$images") ${ETCD_IMAGE:-}; do
    crictl inspecti --quiet "$image" >/dev/null 2>&1 || run crictl pull "$image" || continue
    remove_restore_pod
    if run_etcdutl "$work" "$image" "$@"; then
      remove_restore_pod
      return
    fi
    [[ ! -s $work/etcdutl.log ]] || break # it has run
    log "$image has no etcdutl"
  done
  [[ ! -e $work/etcdutl.log ]] || sed 's/^/  | /' "$work/etcdutl.log" >&2
  return 1
}

# run_etcdutl FOLDER IMAGE ARGUMENT...: its exit status.
run_etcdutl() {
  local work=$1 image=$2 id arguments
  shift 2
  printf -v arguments ', "%s"' "$@"
  cat >"$work/pod.json" <<EOT
{
  "metadata": {"name": "$RESTORE_POD", "namespace": "kube-system", "uid": "$RESTORE_POD"},
  "log_directory": "$work",
  "linux": {"security_context": {"namespace_options": {"network": 2}}}
}
EOT
  cat >"$work/container.json" <<EOT
{
  "metadata": {"name": "etcdutl"},
  "image": {"image": "$image"},
  "command": ["/usr/local/bin/etcdutl"$arguments],
  "mounts": [{"host_path": "$work", "container_path": "/restore"}],
  "log_path": "etcdutl.log"
}
EOT
  id=$(crictl run --no-pull "$work/container.json" "$work/pod.json") || return
  wait_for "${RESTORE_TIMEOUT:-1800}" "etcdutl" has_exited "$id" || return
  [[ $(crictl inspect --output go-template --template '{{.status.exitCode}}' "$id") == 0 ]]
}

has_exited() {
  [[ $(crictl inspect --output go-template --template '{{.status.state}}' "$1") == CONTAINER_EXITED ]]
}

remove_restore_pod() {
  local pod
  for pod in $(crictl pods --quiet --name "^$RESTORE_POD\$"); do
    crictl rmp --force "$pod" >/dev/null
  done
}

# The snapshot's control planes are machines that are gone, this one's name included.
settle_restored() {
  [[ -e $RESTORING ]] || return 0
  step "delete the Nodes of the control planes that are gone"
  wait_for 60 "the API" delete_control_planes || die "the Nodes of the earlier control planes could not be deleted"
  converge_node
  if [[ -n ${RESTORE:-} ]]; then
    date -u >"$RESTORING"
    bucket_put "$RESTORING" "restored/$RESTORE" || die "the bucket $BUCKET_NAME takes no note of the restore: see why above"
  fi
  rm -f -- "$RESTORING"
}

delete_control_planes() {
  kube delete node --selector=node-role.kubernetes.io/control-plane --ignore-not-found >/dev/null
}

# --- from the data on a volume ----------------------------------------------------------------

# adopt [FOLDER]: the next run goes on from the data there, else from what is on this disk. The
# folder is moved away at once: whoever changes their mind has to say so, and no later loss finds it
# again.
adopt() {
  local data=${1:-}
  [[ ${INITIALISE:-false} == true ]] ||
    die "only the first control plane can go on from old data: bring etcd's database there (docs/operations.md, Lost control planes), and run this there"
  [[ ! -e $MANIFESTS/etcd.yaml ]] ||
    die "an etcd is set up on this machine already. If it is the last one of its cluster: $LIB_DIR/control-plane/control-plane.sh alone"
  if [[ -d $ADOPT ]]; then
    log "$ADOPT is what the next pulumi up goes on from"
    return
  fi
  refuse_beside_others
  data=${data%/}
  [[ -n $data ]] || data=$(old_data) || die "$ETCD_DATA holds no data of an etcd that ran"
  [[ ${data%/*} == "$ETCD_DATA" && -s $data/snap/db ]] ||
    die "$data is no folder in $ETCD_DATA with etcd's database, snap/db"
  step "adopt $data, last written $(last_write "$data")"
  mv -T -- "$data" "$ADOPT"
  sync -- "$ETCD_DATA"
  log "pulumi up goes on from it now. To take that back: mv $ADOPT $data"
}

# adopt_etcd: the database is restored as a snapshot is, so that it forgets the other members. It is
# not written to, so another name for it in the work folder will do.
adopt_etcd() {
  step "go on from the data in $ADOPT"
  [[ -z ${RESTORE:-} ]] ||
    die "$ADOPT was adopted, and backup.restore is set: take that out; or, for the snapshot to take the place of the data: mv $ADOPT ${SET_ASIDE}adopted here"
  fresh_work
  ln -- "$ADOPT/snap/db" "$RESTORE_WORK/snapshot"
  begin_with_snapshot "$ADOPT/snap/db" --skip-hash-check # only a snapshot ends with a sum
}

# --- from the last control plane --------------------------------------------------------------

# Without its majority etcd waits for ever. The flag must not stay: every later start would throw
# the other members out again.
alone() {
  local manifest=$MANIFESTS/etcd.yaml
  [[ -e $manifest ]] || die "no etcd was ever set up on this machine"
  refuse_beside_others
  if ! grep -qxF -- "$ALONE" "$manifest"; then
    step "etcd goes on with this member only"
    at_exit together
    restart_etcd "$(sed "s/^    - etcd\$/&\n$ALONE/" "$manifest")"
  fi
  step "etcd as it was configured"
  restart_etcd "$(etcd_together)"
  log "this is a cluster of one control plane now: pulumi up --refresh makes the others anew"
}

# etcd_together: its manifest without the flag.
etcd_together() {
  grep -vxF -- "$ALONE" "$MANIFESTS/etcd.yaml"
}

together() {
  write_file "$MANIFESTS/etcd.yaml" 0600 "$(etcd_together)"
}

refuse_beside_others() {
  look_around
  [[ -z $ready$listening ]] ||
    die "another control plane is there (${ready:-${listening# }}): bring it back, or delete its server if it can never be whole again, and run this once more"
}

# restart_etcd MANIFEST: and wait until the API answers out of it. The API server goes, too: one
# that waits for etcd takes connections and answers none, and a kubelet that starts beside it does
# nothing for two minutes.
restart_etcd() {
  local pod id
  at_exit 'systemctl start kubelet.service'
  systemctl stop kubelet.service || die "the kubelet does not stop" kubelet.service
  for pod in kube-apiserver etcd; do
    id=$(container_of "$pod") || die "crictl does not answer" containerd.service
    [[ -z $id ]] || run crictl stop --timeout 10 "$id" || die "$pod does not stop"
  done
  write_file "$MANIFESTS/etcd.yaml" 0600 "$1"
  systemctl start kubelet.service || die "the kubelet does not start" kubelet.service
  wait_for_own_api
}
