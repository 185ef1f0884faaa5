#!/usr/bin/env bash
# Applies what changed on a control plane that is a member of the cluster. Sourced, never run.
# shellcheck disable=SC2154 # nodes.sh sets node_*

# A machine that was down while its node was taken out of the cluster is no longer a member of etcd.
was_removed() {
  local members
  ! wait_for "${OWN_API_TIMEOUT:-60}" "the API server of this machine" own_api_is_ready || return 1
  others_answer || return 1
  members=$(etcd_members) || return 1
  [[ $members != *"//$NODE_IP:$ETCD_PEER_PORT"* ]] || return 1
  log "the cluster has removed this machine while it was down: joining again"
  begin_attempt join
}

configure_member() {
  need_packages curl=curl
  refuse_wrong_bucket
  settle_manifests
  remove_forced_new_cluster
  refuse_small_etcd_quota
  restore_api_server_certificate
  configure_api_proxy
  install_scripts
  update_files
  ! needs_upgrade || upgrade
  install_programs
  reread_files
  configure_kubeadm
  register_node
  refresh_kubelet_config
  wait_for_own_api
}

# A Node that was deleted comes back when its kubelet starts, but without its role.
register_node() {
  find_node
  [[ -z $node_exists ]] || return 0
  step "register the Node again"
  systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  wait_for 60 "the kubelet to register" own_node_exists || die "the kubelet does not register" kubelet.service
  run kubeadm init phase mark-control-plane --config "$FOLDER/kubeadm-init.yaml" ||
    die "kubeadm could not mark $NODE_NAME as a control plane"
}

own_node_exists() {
  read_node "$NODE_NAME" && [[ -n $node_exists ]]
}
