#!/usr/bin/env bash
# Makes the last control plane that is left a cluster of its own. Sourced, never run.

# A line of etcd's manifest.
FORCE_NEW_CLUSTER='    - --force-new-cluster'

# Without its majority etcd waits forever. The flag must not stay: each later start would remove the
# other members again.
alone() {
  local manifest=$MANIFESTS/etcd.yaml
  [[ -e $manifest ]] || die "no etcd was ever set up on this machine"
  refuse_if_others_live
  if ! has_force_new_cluster; then
    step "etcd continues with this member only"
    at_exit write_manifest_without_force
    restart_etcd "$(sed "s/^    - etcd\$/&\n$FORCE_NEW_CLUSTER/" "$manifest")"
  fi
  step "etcd as it was configured"
  restart_etcd "$(manifest_without_force)"
  log "this is a cluster of one control plane now: pulumi up --refresh recreates the others"
}

# After an interrupted `alone`.
remove_forced_new_cluster() {
  ! has_force_new_cluster || restart_etcd "$(manifest_without_force)"
}

has_force_new_cluster() {
  grep -qxF -- "$FORCE_NEW_CLUSTER" "$MANIFESTS/etcd.yaml"
}

manifest_without_force() {
  grep -vxF -- "$FORCE_NEW_CLUSTER" "$MANIFESTS/etcd.yaml"
}

write_manifest_without_force() {
  write_file "$MANIFESTS/etcd.yaml" 0600 "$(manifest_without_force)"
}
