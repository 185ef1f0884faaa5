#!/usr/bin/env bash
# A cluster whose control planes are all gone begins again with a snapshot of etcd. Sourced, never run.
#
# `restoring` in STATE_DIR says that etcd's data came from a snapshot and the cluster has not gone
# on from it yet: after a cut it is thrown away and fetched again.

RESTORING=$STATE_DIR/restoring
# Informers must never see a revision twice that meant something else (etcd's disaster recovery).
RESTORED_REVISIONS=1000000000

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

# restore_etcd: the snapshot RESTORE becomes the data of an etcd with this machine as its only member.
restore_etcd() {
  local work=$ETCD_DATA/.restore
  step "restore $RESTORE"
  has_bucket || die "backup.restore is set, but no backup.bucket"
  mkdir -p -- "$STATE_DIR"
  : >"$RESTORING"
  sync -- "$STATE_DIR"
  install -d -m 0700 -- "$ETCD_DATA"
  clear_etcd_data
  mkdir -m 0700 -- "$work"
  bucket_get "$RESTORE" "$work/snapshot.gz" ||
    die "$RESTORE cannot be read from the bucket $BUCKET_NAME at $BUCKET_ENDPOINT: see why above"
  gzip -d -- "$work/snapshot.gz" || die "$RESTORE is damaged"
  take_etcdutl "$work"
  # It compares the snapshot with the sum at its end.
  run "$work/etcdutl" snapshot restore "$work/snapshot" --data-dir "$work/data" --name "$NODE_NAME" \
    --initial-cluster "$NODE_NAME=https://$NODE_IP:2380" \
    --initial-advertise-peer-urls "https://$NODE_IP:2380" \
    --bump-revision "$RESTORED_REVISIONS" --mark-compacted || die "etcdutl could not restore $RESTORE"
  mv -- "$work/data/member" "$ETCD_DATA/member"
  rm -rf -- "$work"
}

# take_etcdutl FOLDER: out of the image of etcd that kubeadm uses, or that of the etcd project.
take_etcdutl() {
  local image images mount=$1/image
  images=$(kubeadm config images list --config "$FOLDER/kubeadm-init.yaml") || die "kubeadm does not name its images"
  mkdir -- "$mount"
  for image in $(grep '/etcd:' <<<"$images") "$ETCD_IMAGE"; do
    run crictl pull "$image" || continue
    run ctr --namespace k8s.io images mount "$image" "$mount" || continue
    cp -- "$mount/usr/local/bin/etcdutl" "$1/" 2>/dev/null || log "$image has no etcdutl"
    run ctr --namespace k8s.io images unmount --rm "$mount" || die "$mount cannot be unmounted"
    [[ ! -e $1/etcdutl ]] || return 0
  done
  die "no image has etcdutl"
}

# The snapshot's control planes are machines that are gone, this one's name included.
settle_restored() {
  [[ -e $RESTORING ]] || return 0
  step "delete the Nodes of the control planes that are gone"
  wait_for 60 "the API" delete_control_planes || die "the Nodes of the earlier control planes could not be deleted"
  converge_node
  rm -f -- "$RESTORING"
}

delete_control_planes() {
  kube delete node --selector=node-role.kubernetes.io/control-plane --ignore-not-found >/dev/null
}
