#!/usr/bin/env bash
# Takes a node out of the cluster. Runs on the active gateway, for several nodes at the same time;
# nothing of its folder stays there.
#
#   drain.sh drain   checks that the cluster can spare the node, drains it, removes its etcd member,
#                    resets its machine and deletes the Node; leaves the Node of a server that does
#                    not answer, until someone has stopped that server

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/ssh.sh
source "$HERE/cluster/ssh.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/nodes.sh
source "$HERE/cluster/nodes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kured.sh
source "$HERE/cluster/kured.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/cordon.sh
source "$HERE/cluster/cordon.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/pods.sh
source "$HERE/cluster/pods.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/volumes.sh
source "$HERE/cluster/volumes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcd-members.sh
source "$HERE/cluster/etcd-members.sh"

OUT_OF_SERVICE=node.kubernetes.io/out-of-service

drain() {
  local exists alive=false fence=false
  wait_for_cluster
  step "check that the cluster can spare $NODE_NAME"
  find_node
  exists=$node_exists
  if is_replaced; then
    log "$NODE_NAME is another machine by now: nothing to do"
    return
  fi
  refuse_local_volumes
  [[ -z $exists ]] || ! node_is_healthy || alive=true
  if [[ $alive == true ]]; then
    wait_for_reboots "$NODE_NAME"
    wait_for_other_nodes
  fi
  [[ $ROLE != control-plane ]] || require_quorum_without_node
  if [[ -z $exists ]]; then
    log "there is no Node $NODE_NAME: nothing to drain"
  else
    leave_successor
    cordon
    if evict_pods; then
      wait_for_volumes "$alive"
    else
      abandon_dead_node
    fi
  fi
  leave_successor
  if [[ $ROLE == control-plane ]]; then
    hand_over_leadership
    step "remove the etcd member"
    # Another control plane may be renewing its certificates; etcd refuses changes for seconds then.
    wait_for 120 "etcd on another control plane" remove_etcd_member ||
      die "the etcd member of $NODE_NAME could not be removed"
  fi
  reset_machine || die "kubeadm reset failed on $NODE_NAME: the reason is above"
  take_over_lock "$NODE_NAME" || log "the lock of kured cannot be read or written: look whether $NODE_NAME has it"
  if [[ $fence == true ]]; then
    log "$NODE_NAME does not answer, or ends no pod: its Node and its pods stay until its server is stopped"
    return
  fi
  leave_successor
  step "delete the Node"
  wait_for "${NODE_TIMEOUT:-60}" "the API to delete the Node $NODE_NAME" delete_node ||
    die "the Node $NODE_NAME could not be deleted"
  log "$NODE_NAME is out of the cluster"
}

# wait_for_cluster: the API, unless there is nothing to leave. With the last control plane the API is lost
# as well, and comes back only with the machines that this update makes; and one whose first init failed
# has brought none up.
wait_for_cluster() {
  step "wait for the API"
  wait_for "${API_TIMEOUT:-120}" "the cluster's API" api_answers && return
  node_provider=''
  if is_replaced; then
    log "the API does not answer, and the machine at $NODE_IP is another one by now: nothing to leave"
    exit 0
  elif never_joined; then
    log "the API does not answer, and $NODE_NAME has never been in the cluster: nothing to leave"
    exit 0
  fi
  API_TIMEOUT=0 wait_for_api
}

# never_joined: by what the machine has noted (../node/node.sh). An API that an init has brought up may
# have nodes already.
never_joined() {
  local noted
  noted=$(on_node "cat $STATE_DIR/attempt 2>/dev/null; ls $STATE_DIR/member $STATE_DIR/served 2>/dev/null; true" </dev/null 2>/dev/null) || return
  [[ -z $noted || $noted == init ]]
}

# The kubelet ends no pod, so a drain would wait forever. The machine may be isolated and write to its
# volumes: its pods must not run anywhere else before it is stopped, which kubeadm's reset does. If that
# is not possible, the program stops a server after this script, and a person any other machine.
abandon_dead_node() {
  step "abandon a dead node"
  reset_machine || log "kubeadm reset failed on $NODE_NAME: the reason is above"
  [[ $machine_is_reset == false ]] || no_container_runs || machine_is_reset=false
  if [[ $machine_is_reset == false && -n ${PROVIDER_ID:-} ]]; then
    fence=true
    return
  fi
  [[ $machine_is_reset == true ]] || is_out_of_service ||
    die "$NODE_NAME does not answer, or ends no pod, and may still run: pods that another node started in place of its own would write to the same volumes. Switch the machine off, say so, and run again: kubectl taint node $NODE_NAME $OUT_OF_SERVICE=nodeshutdown:NoExecute"
  log "$NODE_NAME is stopped: its pods are deleted by force"
  kube taint node "$NODE_NAME" --overwrite "$OUT_OF_SERVICE=nodeshutdown:NoExecute" >/dev/null ||
    die "$NODE_NAME could not be tainted"
  wait_for 90 "the pods of $NODE_NAME to go" pods_are_gone || delete_pods_by_force
  wait_for_volumes false
}

# kubeadm's reset warns of containers that it cannot stop, for example without containerd, and succeeds.
no_container_runs() {
  local running
  running=$(on_node sudo -n crictl ps --quiet </dev/null) && [[ -z $running ]] && return
  log "containers may still run on $NODE_NAME, which kubeadm reset did not stop"
  return 1
}

is_out_of_service() {
  local taints
  taints=$(kube get node "$NODE_NAME" -o jsonpath='{.spec.taints[*].key}') || return
  [[ " $taints " == *" $OUT_OF_SERVICE "* ]]
}

# Another machine has the name already: its Node and its etcd member are not to be touched. A Node
# that is not there, or has just registered, does not tell.
is_replaced() {
  [[ -n ${PROVIDER_ID:-} ]] || return
  if [[ -n $node_provider ]]; then
    [[ $node_provider != "$PROVIDER_ID" ]]
  else
    read_server && [[ $server != "${PROVIDER_ID##*/}" ]]
  fi
}

# read_server: sets `server` to the ID of the machine that answers at the address.
read_server() {
  server=$(on_node cat /var/lib/cloud/data/instance-id </dev/null 2>/dev/null)
}

# The gateway that this runs on may have stood still while an update replaced it, and the node.
leave_successor() {
  find_node
  is_replaced || return 0
  log "$NODE_NAME is another machine by now: nothing more to do"
  exit 0
}

reset_was_tried=false
machine_is_reset=false

# reset_machine: once. Status 1 if it should have been reset, and was not.
reset_machine() {
  [[ $reset_was_tried == false ]] || return 0
  local missing
  step "kubeadm reset on $NODE_NAME"
  reset_was_tried=true
  if [[ -n ${PROVIDER_ID:-} ]] && ! is_same_machine; then
    log "the machine at $NODE_IP cannot be reached, or is another one by now: not reset"
  elif ! missing=$(on_node "test -e $SCRIPTS_DIR/$ROLE/$ROLE.sh || echo missing" </dev/null 2>/dev/null); then
    log "no SSH connection to $NODE_IP: $(complaint on_node true)"
    # One that is alive would register its Node again when its kubelet starts.
    [[ $alive == false ]] || return
    log "the machine is considered dead and not reset"
  elif [[ -n $missing ]]; then
    log "the machine was never configured: nothing to reset"
  elif is_another_node; then
    log "the machine at $NODE_IP is another node by now: not reset"
  else
    SCRIPT_TIMEOUT=${SCRIPT_TIMEOUT:-1800} on_node_script reset </dev/null || return
    machine_is_reset=true
  fi
}

# A new machine has the address and the host key of the previous one, but not its ID.
is_same_machine() {
  read_server && [[ $server == "${PROVIDER_ID##*/}" ]]
}

# A machine that is no server has no ID, but the name that it was configured with last.
is_another_node() {
  local name
  [[ -z ${PROVIDER_ID:-} ]] || return 1
  name=$(on_node "sudo -n bash -c 'source $CONF_DIR/node.env; echo \$CLUSTER_NAME/\$NODE_NAME'" </dev/null 2>/dev/null) || return 1
  [[ -n $name && $name != "$CLUSTER_NAME/$NODE_NAME" ]]
}

case $VERB in
  drain)
    load_env CLUSTER_NAME NODE_NAME NODE_IP ROLE SSH_USER ETCD_CLIENT_PORT ETCD_PEER_PORT
    drain
    ;;
  *) die "usage: drain.sh drain" ;;
esac
