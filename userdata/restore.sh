#!/usr/bin/env bash
# What brings a cluster back: a snapshot of etcd when all control planes are gone, the last of them
# when the others are. Sourced, never run.
#
# `restoring` in STATE_DIR says that etcd's data came from a snapshot and the cluster has not gone
# on from it yet: after a cut it is thrown away and fetched again.

RESTORING=$STATE_DIR/restoring
RESTORE_POD=openstack-kubernetes-restore
# A line of etcd's manifest, while the verb "alone" is at work.
ALONE='    - --force-new-cluster'

# --- from a snapshot --------------------------------------------------------------------------

# An empty cluster in the place of one that could be brought back is what nobody wants.
refuse_to_forget() {
  local names newest
  has_bucket || return 0
  step "look for backups of this cluster"
  names=$(bucket_list "$(bucket_folder)/") ||
    die "the bucket $BUCKET_NAME at $BUCKET_ENDPOINT cannot be listed (see why above): set backup.bucket and backupSecretKey right"
  [[ -n $names ]] || return 0
  newest=$(sort <<<"$names" | tail -n 1)
  die "no control plane answers, but there are backups of this very cluster, the newest one $newest. To go on from it: pulumi config set --path backup.restore $newest, then pulumi up. To begin with an empty cluster instead, delete them from the bucket $BUCKET_NAME"
}

# A setting that was left in place must not bring an old snapshot back when control planes are lost
# the next time, or just do not answer.
refuse_to_repeat() {
  local noted
  noted=$(bucket_list "restored/$RESTORE") || die "the bucket $BUCKET_NAME at $BUCKET_ENDPOINT cannot be listed: see why above"
  [[ -z $noted ]] ||
    die "this cluster has begun with $RESTORE already: take backup.restore out, or set it to a newer one. To go back to the same one again, delete $noted from the bucket $BUCKET_NAME"
}

# restore_etcd: the snapshot RESTORE becomes the data of an etcd with this machine as its only member.
restore_etcd() {
  local work=$ETCD_DATA/.restore
  step "restore $RESTORE"
  has_bucket || die "backup.restore is set, but no backup.bucket"
  [[ $RESTORE == "$(bucket_folder)/"* ]] ||
    die "$RESTORE is not of this cluster, whose backups are in $(bucket_folder)/"
  refuse_to_repeat
  install -d -m 0700 -- "$ETCD_DATA"
  clear_etcd_data
  : >"$RESTORING"
  sync -- "$STATE_DIR"
  mkdir -m 0700 -- "$work"
  bucket_get "$RESTORE" "$work/snapshot.gz" ||
    die "$RESTORE cannot be read from the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: see why above"
  gzip -d -- "$work/snapshot.gz" || die "$RESTORE is damaged"
  # It compares the snapshot with the sum at its end. Kubelets and others that run on must never see
  # a revision twice, not after a second restore either: nobody writes a million times a second.
  etcdutl "$work" snapshot restore /restore/snapshot --data-dir=/restore/data --name="$NODE_NAME" \
    --initial-cluster="$NODE_NAME=https://$NODE_IP:2380" \
    --initial-advertise-peer-urls="https://$NODE_IP:2380" \
    --bump-revision="$(date +%s)000000" --mark-compacted ||
    die "etcdutl could not restore $RESTORE: see why above"
  mv -- "$work/data/member" "$ETCD_DATA/member"
  rm -rf -- "$work"
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

# restart_etcd MANIFEST: and wait until the API answers out of it. The API server goes, too: one that
# waits for etcd takes connections and answers none, and a kubelet that starts beside it does nothing
# for two minutes.
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
