#!/usr/bin/env bash
# Joins the cluster through a control plane that answers. Sourced, never run.
# shellcheck disable=SC2154 # nodes.sh sets node_*

join_cluster() {
  local try
  step "join the cluster"
  wait_for_api_proxy || die "the API does not answer through the node-local HAProxy" haproxy.service
  refuse_adopted_data
  refuse_older_cluster_data
  for try in 1 2 3; do
    remove_predecessor
    join_once && break
    ((try < 3)) || die "this control plane could not join in $try tries: the reasons are above" kubelet.service
    # etcd admits one learner at a time, and only while every member is healthy.
    log "the join failed: cleaning up and trying again"
  done
  finish_attempt
  update_joined
}

# An earlier machine of this name, or an earlier attempt of this one, must leave the cluster before
# anything is wiped here: its etcd may count for the majority. A dead member left in etcd would make
# the join hang at the health check.
remove_predecessor() {
  step "look for an earlier machine of this name"
  find_node
  if [[ -n $node_exists && $node_ready == True && -n $node_address && $node_address != "$NODE_IP" ]]; then
    die "a Node $NODE_NAME is Ready at $node_address, which is not this machine ($NODE_IP)"
  fi
  if [[ -n $node_exists ]]; then
    log "deleting its Node"
    delete_node || die "the stale Node $NODE_NAME could not be deleted"
  fi
  wait_for 120 "etcd on another control plane" remove_etcd_member ||
    die "the members of etcd could not be listed: is etcd healthy on the other control planes?"
  ! was_interrupted || reset_node
  # The cluster lives without this machine, so etcd data here is stale.
  clear_etcd_data
  copy_files
}

join_once() {
  local -a flags
  local status=0
  mapfile -t flags < <(kubeadm_flags)
  step "kubeadm join"
  mint_token || {
    log "no join token could be created"
    return 1
  }
  encrypt_as_the_others || return
  sign_as_the_others || return
  at_exit "rm -f -- '$RUN_DIR/discovery.conf'"
  (umask 077 && discovery >"$RUN_DIR/discovery.conf")
  begin_attempt join
  with_approval run kubeadm join --config "$FOLDER/kubeadm-join.yaml" ${flags[@]+"${flags[@]}"} ||
    status=$?
  rm -f -- "$RUN_DIR/discovery.conf"
  delete_token
  return "$status"
}

# A machine that joins takes the configuration that the cluster has stored. That one is old if this
# machine is the first to bring a change, such as a new name for the certificate.
update_joined() {
  local stored running
  rm -f -- "$STATE_DIR/kubeadm-init.sha256"
  # With a new version and a new machine in one run, this machine is the first to bring the version.
  # No later run would do this, because nothing in the folder changes any more.
  running=$(api_server_version) || running=''
  if [[ -n $running && $running != "$KUBERNETES_VERSION" ]]; then
    upgrade
  else
    catch_up_add_ons
  fi
  stored=$(stored_configuration_sum) || die "kubeadm's configuration in the cluster could not be read"
  if [[ $stored == "$(cluster_configuration_sum)" ]]; then
    remember_configuration
  else
    configure_kubeadm
    refresh_kubelet_config
  fi
}
