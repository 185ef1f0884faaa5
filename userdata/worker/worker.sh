#!/usr/bin/env bash
# A worker.
#
#   worker.sh configure   everything except joining: programs, node-local HAProxy, kubeadm's file; on a
#                         node that has joined, applies what changed, except another version
#   worker.sh join        joins by the discovery kubeconfig on standard input
#   worker.sh finish      ends an interrupted join of a kubelet that is in the cluster
#   worker.sh upgrade     upgrades a node that has joined, which should be drained
#   worker.sh pod-tokens replace|wait KEY...
#                         a step of cluster/service-account-key.sh
#   worker.sh authorities trust|certificates|check
#                         a step of cluster/certificate-authorities.sh
#   worker.sh state       prints "joined", "upgrading" if its upgrade was interrupted, or "new"
#   worker.sh reset       removes everything of the cluster from the machine

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/haproxy.sh
source "$HERE/lib/haproxy.sh"
# shellcheck source-path=SCRIPTDIR source=../node/api-proxy.sh
source "$HERE/node/api-proxy.sh"
# shellcheck source-path=SCRIPTDIR source=../node/clock.sh
source "$HERE/node/clock.sh"
# shellcheck source-path=SCRIPTDIR source=../node/authorities.sh
source "$HERE/node/authorities.sh"
# shellcheck source-path=SCRIPTDIR source=../node/kubelet-certificates.sh
source "$HERE/node/kubelet-certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../node/node.sh
source "$HERE/node/node.sh"
# shellcheck source-path=SCRIPTDIR source=../node/pod-tokens.sh
source "$HERE/node/pod-tokens.sh"

UPGRADE=$STATE_DIR/upgrade # exists until it is done

configure() {
  step "check what is here"
  [[ -s $FOLDER/ca.crt && -s $FOLDER/kubeadm-join.yaml ]] ||
    die "ca.crt and kubeadm-join.yaml must be in $FOLDER"
  refuse_foreign_cluster
  refuse_another_name
  drop_one_time_host_key
  if is_member; then
    # The kubelet's settings are read from the API, so what leads there comes first.
    need_packages curl=curl
    configure_api_proxy
    if [[ $(kubelet_version) == "$KUBERNETES_VERSION" ]]; then
      install_programs
      refresh_kubelet_config
    else
      log "this node runs $(kubelet_version): it is upgraded to $KUBERNETES_VERSION when it has been drained"
    fi
  else
    install_programs
    configure_api_proxy
  fi
  install_scripts
  # A power cut would leave new files empty, and no later run would write them again.
  sync --file-system -- "$CONF_DIR"
  log "configured"
}

# The drain of the old name would reset this machine when it has the new one.
refuse_another_name() {
  local name
  is_member && [[ -r $CONF_DIR/node.env ]] || return 0
  name=$(name_in "$CONF_DIR/node.env")
  [[ $name == "$NODE_NAME" ]] ||
    die "this machine is the node $name: take that one out of the cluster in an update of its own, and then add $NODE_NAME"
}

# In a shell of its own: the settings of this run are others.
name_in() {
  bash -c 'source "$1" && printf %s "$NODE_NAME"' bash "$1"
}

upgrade() {
  is_member || die "this machine is not in a cluster: there is nothing to upgrade"
  step "upgrade from $(kubelet_version) to $KUBERNETES_VERSION"
  local -a flags
  mapfile -t flags < <(kubeadm_flags)
  # The kubelet has the new version before all is done.
  write_file "$UPGRADE" 0644 "$KUBERNETES_VERSION"
  sync -- "$UPGRADE" "$STATE_DIR"
  bash "$HERE/install/install.sh" kubeadm || die "install.sh kubeadm failed"
  run kubeadm upgrade node ${flags[@]+"${flags[@]}"} || die "kubeadm upgrade node failed" kubelet.service
  install_programs
  forget_allocations changed
  # After an interrupted upgrade the old process may still run.
  systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  refresh_kubelet_config
  sync --file-system -- "$KUBERNETES_DIR"
  rm -f -- "$UPGRADE"
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
  [[ -s $FOLDER/kubeadm-join.yaml ]] || die "$FOLDER has no kubeadm-join.yaml: run worker.sh configure first"

  if is_member; then
    rejoin && return
    reset_node
  elif was_interrupted; then
    log "an earlier join was interrupted"
    reset_node
  fi
  check_clock "$CONTROL_PLANE_ADDRESSES"
  step "wait for the API"
  wait_for_api_proxy || die "the API does not answer through the node-local HAProxy" haproxy.service
  step "kubeadm join"
  begin_attempt join
  run kubeadm join --config "$FOLDER/kubeadm-join.yaml" ${flags[@]+"${flags[@]}"} ||
    die "kubeadm join failed" kubelet.service
  hide_kubelet_config
  end_attempt
  log "joined"
}

# The kubelet starts after kubeadm has written all its files, and has its certificate since then.
finish() {
  is_member || was_interrupted || die "no join was interrupted on this machine"
  rejoin || die "the kubelet does not reach the cluster" kubelet.service
  rm -f -- "$KUBERNETES_DIR/bootstrap-kubelet.conf"
  hide_kubelet_config
  end_attempt
}

# A node that has joined only needs a running kubelet and its Node; if the Node was deleted, the
# kubelet registers it again when it starts.
rejoin() {
  step "check the kubelet of a node that has joined"
  wait_for_api_proxy || die "the API does not answer through the node-local HAProxy" haproxy.service
  if ! node_exists; then
    log "the cluster no longer has a Node $NODE_NAME: restarting the kubelet"
    systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
    wait_for 30 "the kubelet to register" node_exists || return 1
  fi
  systemctl is-active --quiet kubelet.service || systemctl start kubelet.service ||
    die "the kubelet does not start" kubelet.service
  log "has joined already"
}

state() {
  if ! is_member; then
    echo new
  elif [[ -e $UPGRADE ]]; then
    echo upgrading
  else
    echo joined
  fi
}

node_exists() {
  kubectl --kubeconfig "$KUBERNETES_DIR/kubelet.conf" --request-timeout=10s \
    get node "$NODE_NAME" -o name >/dev/null 2>&1
}

require_root
load_env NODE_NAME NODE_IP CLUSTER_NAME API_NAME KUBERNETES_VERSION CONTROL_PLANE_ADDRESSES API_PORT
case $VERB in
  configure | join | finish | upgrade | pod-tokens | authorities | reset)
    lock
    case $VERB in
      configure) configure ;;
      join) join ;;
      finish) finish ;;
      upgrade) upgrade ;;
      pod-tokens) pod_tokens "${@:2}" ;;
      authorities) kubelet_authorities "${@:2}" ;;
      reset) reset_node ;;
    esac
    ;;
  state) state ;;
  *) die "usage: worker.sh configure|join|finish|upgrade|pod-tokens|authorities|state|reset" ;;
esac
