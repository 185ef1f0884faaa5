#!/usr/bin/env bash
# Brings a node into the cluster. Runs on the active gateway, for several nodes at the same time;
# nothing of its folder stays there.
#
#   join.sh join   a worker joins, or is drained and upgraded to another version; then, for each
#                  role, waits until the node is Ready, sets its labels and taints, approves its
#                  serving certificate, and uncordons it if these scripts cordoned it

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/ssh.sh
source "$HERE/cluster/ssh.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/nodes.sh
source "$HERE/cluster/nodes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/registration.sh
source "$HERE/cluster/registration.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kured.sh
source "$HERE/cluster/kured.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/cordon.sh
source "$HERE/cluster/cordon.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/pods.sh
source "$HERE/cluster/pods.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/tokens.sh
source "$HERE/cluster/tokens.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/labels.sh
source "$HERE/cluster/labels.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/requests.sh
source "$HERE/cluster/requests.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/client-certificates.sh
source "$HERE/cluster/client-certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/serving-certificates.sh
source "$HERE/cluster/serving-certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/workers.sh
source "$HERE/cluster/workers.sh"

join() {
  wait_for_api
  if [[ $ROLE == worker ]]; then
    join_worker
    upgrade_worker
  fi
  step "wait for the node"
  wait_for "${READY_TIMEOUT:-600}" "$NODE_NAME to be Ready" node_is_ready || die_of_node
  [[ $ROLE != control-plane ]] || wait_for_api_server
  label_node
  record_pool
  trust_kubelet
  uncordon
  log "$NODE_NAME is in the cluster"
}

node_is_ready() {
  node_is_registered && node_is_healthy
}

# That of a control plane needs its role too, which only its own script gives it.
register_node() {
  [[ $ROLE == worker ]] && on_node sudo -n systemctl restart kubelet.service </dev/null
}

# die_of_node: with what the cluster and the machine say about it.
die_of_node() {
  local state
  log "conditions of $NODE_NAME:"
  kube get node "$NODE_NAME" -o jsonpath='{range .status.conditions[*]}{.type}{"="}{.status}{" "}{.message}{"\n"}{end}' 2>&1 |
    sed 's/^/  | /' >&2 || log "  (no Node of that name)"
  state=$(on_node systemctl is-active kubelet.service </dev/null 2>/dev/null) || true # it fails when inactive
  log "unit kubelet.service on $NODE_NAME is ${state:-unknown}; the last lines of its journal:"
  on_node sudo -n journalctl --unit=kubelet --no-pager --output=cat --lines=15 </dev/null 2>&1 |
    sed 's/^/  | /' >&2 || log "  (no SSH connection)"
  [[ $ROLE != control-plane || -n ${node_exists:-} ]] ||
    die "the cluster has no Node $NODE_NAME: a run that was killed may have drained it. To let it join again: pulumi up --replace '**:Command::$NODE_NAME-membership'"
  die "$NODE_NAME did not become Ready: its conditions and the kubelet's journal are above"
}

wait_for_api_server() {
  step "wait for the API server of $NODE_NAME"
  wait_for "${READY_TIMEOUT:-600}" "the API server of $NODE_NAME" api_server_ready ||
    die "the API server at $NODE_IP:$API_PORT is not ready: $(complaint kube --server="https://$NODE_IP:$API_PORT" get --raw '/readyz?verbose')"
}

api_server_ready() {
  kube --server="https://$NODE_IP:$API_PORT" get --raw /readyz >/dev/null 2>&1
}

case $VERB in
  join)
    load_env NODE_NAME NODE_IP ROLE API_NAME API_PORT LOCAL_API_PORT SSH_USER KUBERNETES_VERSION
    join
    ;;
  *) die "usage: join.sh join" ;;
esac
