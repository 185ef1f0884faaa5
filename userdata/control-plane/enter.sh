#!/usr/bin/env bash
# Decides how this machine enters the cluster: by joining it, or by initializing it. Sourced, never
# run.
# shellcheck disable=SC2154 # others.sh sets ready and listening

enter_cluster() {
  step "look for the cluster"
  # An interrupted init whose API has served is finished: others may rely on it already.
  if was_interrupted && init_has_served; then
    log "an earlier kubeadm init was interrupted after its API had come up: finishing it"
    initialize --skip-phases=preflight,show-join-command
    return
  fi
  # After an interrupted join this machine's etcd may count for the majority: the others need it.
  if was_interrupted && [[ -e $MANIFESTS/etcd.yaml ]]; then
    log "an earlier run was interrupted"
    systemctl start kubelet.service || die "the kubelet does not start" kubelet.service
  fi
  if ! others_answer && others_listen; then
    check_clock "$listening"
    wait_for_others || die "a cluster exists, but the API of none of its control planes becomes ready: repair them first (do they have their majority?). No second cluster was initialized next to it"
  fi
  check_clock "$ready"
  if [[ -n $ready ]]; then
    join_cluster
  elif may_initialize; then
    ! was_interrupted || clear_interrupted_attempt
    set_aside_unserved
    choose_data
    initialize --skip-phases=show-join-command
  else
    wait_for_others || die "no other control plane answers ($CONTROL_PLANE_ADDRESSES, port $API_PORT), and INITIALIZE is false here: look at the output of the control plane that initializes the cluster"
    join_cluster
  fi
}

# `true`, or `restore` on a machine that came after the cluster had begun: only with its data.
may_initialize() {
  [[ ${INITIALIZE:-false} != false ]]
}

# The kubelet continues after a run was interrupted, so the API may have come up since.
init_has_served() {
  [[ $(attempt) == init ]] || return 1
  [[ ! -e $STATE_DIR/served ]] || return 0
  [[ -e $MANIFESTS/etcd.yaml ]] || return 1
  wait_for "${OWN_API_TIMEOUT:-60}" "the API server of this machine" own_api_is_ready
}

# No other control plane answers. Etcd's data is worthless if it comes from an init whose API never
# came up, and may be the last copy if it comes from a cluster that this machine was just joining.
# kubeadm would empty the whole folder, including what was set aside there. The kubelet could start
# the API while this decides that it never came up.
clear_interrupted_attempt() {
  systemctl stop kubelet.service || die "the kubelet does not stop" kubelet.service
  [[ $(attempt) != init || ! -d $ETCD_DATA/member ]] || : >"$UNSERVED"
  RESET_SKIP=remove-etcd-member reset_node
}

# choose_data: what the new cluster begins with.
choose_data() {
  if [[ -d $ADOPT ]]; then
    restore_adopted
  elif [[ -n ${RESTORE:-} ]]; then
    restore_snapshot
  else
    refuse_orphaned_data
    refuse_forgotten_backups
    refuse_to_begin_empty
    rm -rf -- "$RESTORE_WORK" # of an abandoned restore: kubeadm needs an empty folder
  fi
}

# A cluster that has lost its data must not be replaced by an empty one behind its own name: the pods
# on its workers would end.
refuse_to_begin_empty() {
  local data aside='' bucket='there is no backup.bucket'
  [[ $INITIALIZE == restore ]] || return 0
  ! has_bucket || bucket="the bucket $BUCKET_NAME has no backup of it"
  ! data=$(newest_unserved) ||
    aside=" Or continue from what an interrupted run has left: $SCRIPTS_DIR/control-plane/control-plane.sh adopt $data here, then pulumi up."
  die "no control plane answers, $ETCD_DATA holds no data of the cluster that this stack had, and $bucket: not beginning an empty one in its place. Bring another control plane back, or its data (docs/operations.md, Lost control planes).$aside Or, to begin an empty cluster, in which all pods of the lost one end: $BEGIN_EMPTY, then pulumi up"
}
