#!/usr/bin/env bash
# A worker.
#
#   worker.sh prepare   everything but the cluster: programs, node-local HAProxy, kubeadm's file;
#                       on a node that has joined, what changed since; but not the version
#   worker.sh join      joins by the discovery kubeconfig on standard input
#   worker.sh upgrade   brings a node that has joined to the version; it should be drained
#   worker.sh state     prints "joined" or "new"
#   worker.sh reset     takes everything of the cluster off the machine

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/haproxy.sh
source "$HERE/lib/haproxy.sh"
# shellcheck source-path=SCRIPTDIR source=../node/node.sh
source "$HERE/node/node.sh"

prepare() {
  step "check what is here"
  [[ -s $FOLDER/ca.crt && -s $FOLDER/kubeadm-join.yaml ]] ||
    die "ca.crt and kubeadm-join.yaml must be in $FOLDER"
  refuse_foreign_cluster
  drop_one_time_host_key
  if is_member; then
    # What the node needs to reach the API comes first: the kubelet's settings are there.
    need_packages curl=curl
    configure_api_proxy
    if [[ $(kubelet_version) == "$KUBERNETES_VERSION" ]]; then
      install_programs
      refresh_kubelet_config
    else
      log "this node runs $(kubelet_version): the gate drains it, then it is upgraded to $KUBERNETES_VERSION"
    fi
  else
    install_programs
    configure_api_proxy
  fi
  install_scripts
  log "prepared"
}

install_programs() {
  step "packages and programs"
  bash "$HERE/install/install.sh" all || die "install.sh all failed" containerd.service
}

upgrade() {
  is_member || die "this machine is in no cluster: there is nothing to upgrade"
  step "upgrade from $(kubelet_version) to $KUBERNETES_VERSION"
  local -a flags
  mapfile -t flags < <(kubeadm_flags)
  bash "$HERE/install/install.sh" kubeadm || die "install.sh kubeadm failed"
  run kubeadm upgrade node ${flags[@]+"${flags[@]}"} || die "kubeadm upgrade node failed" kubelet.service
  install_programs
  # A cut-off try may have left the new program beside the old process.
  systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  refresh_kubelet_config
  log "upgraded"
}

join() {
  local -a flags
  mapfile -t flags < <(kubeadm_flags)
  step "read the discovery file"
  mkdir -p -- "$RUN_DIR"
  (umask 077 && cat >"$RUN_DIR/discovery.conf")
  at_exit "rm -f -- '$RUN_DIR/discovery.conf'"
  [[ -s $RUN_DIR/discovery.conf ]] || die "no discovery kubeconfig on standard input"
  [[ -s $FOLDER/kubeadm-join.yaml ]] || die "run worker.sh prepare first: $FOLDER has no kubeadm-join.yaml"

  if is_member; then
    rejoin && return
    reset_node
  elif half_done; then
    log "an earlier join was cut off"
    reset_node
  fi
  step "wait for the API"
  wait_for_api_proxy || die "the API does not answer through the node-local HAProxy" haproxy.service
  step "kubeadm join"
  begin_attempt join
  run kubeadm join --config "$FOLDER/kubeadm-join.yaml" ${flags[@]+"${flags[@]}"} ||
    die "kubeadm join failed" kubelet.service
  end_attempt
  log "joined"
}

# A node that has joined needs nothing but a kubelet that runs and is known; one whose Node was
# deleted registers again when its kubelet starts.
rejoin() {
  step "check the kubelet of a node that has joined"
  wait_for_api_proxy || die "the API does not answer through the node-local HAProxy" haproxy.service
  if ! known; then
    log "this node is not known in the cluster any more: restarting its kubelet"
    systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
    wait_for 30 "the kubelet to register" known || return 1
  fi
  systemctl is-active --quiet kubelet.service || systemctl start kubelet.service ||
    die "the kubelet does not start" kubelet.service
  log "has joined already"
}

known() {
  kubectl --kubeconfig "$KUBERNETES_DIR/kubelet.conf" --request-timeout=10s \
    get node "$NODE_NAME" -o name >/dev/null 2>&1
}

require_root
load_env NODE_NAME NODE_IP CLUSTER_NAME API_NAME KUBERNETES_VERSION CONTROL_PLANE_ADDRESSES
case $VERB in
  prepare | join | upgrade | reset)
    lock
    case $VERB in
      prepare) prepare ;;
      join) join ;;
      upgrade) upgrade ;;
      reset) reset_node ;;
    esac
    ;;
  state) if is_member; then echo joined; else echo new; fi ;;
  *) die "usage: worker.sh prepare|join|upgrade|state|reset" ;;
esac
