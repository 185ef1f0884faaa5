#!/usr/bin/env bash
# The pods of the node: evicted, or deleted by force. Sourced, never run.
# shellcheck disable=SC2154 # nodes.sh sets node_*

# evict_pods: status 1 if the node is dead or dies meanwhile; its kubelet would end no pod, or has ended
# none.
evict_pods() {
  local uptime start began limit=${DRAIN_TIMEOUT:-600} quick=0 provider=${PROVIDER_ID:-$node_provider}
  step "drain"
  read_uptime
  start=$uptime
  until ((uptime - start >= limit)); do
    # An API server that goes away meanwhile is no reason to give up a drain of hours.
    find_node
    # This machine may have stood still while its gateway was replaced, and the node as well.
    [[ -z $provider || -z $node_provider || $node_provider == "$provider" ]] ||
      die "another machine has taken the name $NODE_NAME meanwhile: it is left alone"
    ! is_dead || return 1
    read_uptime
    began=$uptime
    # One minute at a time: a machine may die while it is drained.
    ! run kubectl --kubeconfig "$ADMIN_KUBECONFIG" drain "$NODE_NAME" --ignore-daemonsets \
      --delete-emptydir-data --timeout=60s || return 0
    ! no_pod_ends || return 1
    # What fails at once will fail again, for example pods without a controller.
    read_uptime
    quick=$((uptime - began > 10 ? 0 : quick + 1))
    ((quick < 3)) || break
    sleep "${WAIT_PAUSE:-3}"
    read_uptime
  done
  die "$NODE_NAME could not be drained: the reason is above. It stays cordoned and nothing was removed; run again when the cause is gone, or, if you take the change back: pulumi up --replace '**:Command::$NODE_NAME-join'"
}

# A kubelet that could not reach the API is not heard of for a moment, and its machine answers then.
is_dead() {
  [[ $node_ready == Unknown ]] || return 1
  ! on_node true </dev/null 2>/dev/null || ! wait_for "${HEARD_TIMEOUT:-60}" "the kubelet of $NODE_NAME" is_heard
}

is_heard() {
  read_node "$NODE_NAME" && [[ -n $node_exists && $node_ready != Unknown ]]
}

# no_pod_ends: all that are left should have ended minutes ago, and the kubelet says that it cannot end
# them, for example because containerd does not answer.
no_pod_ends() {
  local left long_ago due
  [[ $node_ready == False ]] && left=$(pods_left) && [[ -n $left ]] || return 1
  long_ago=$(date -u -d '-5 minutes' +%Y-%m-%dT%H:%M:%SZ)
  while read -r _ _ due _; do
    [[ $due == [0-9]* && $due < $long_ago ]] || return 1
  done <<<"$left"
  log "$NODE_NAME is not Ready, and does not end these pods: $(cut -d ' ' -f 1,2 <<<"$left" | tr ' ' / | paste -sd ' ')"
}

delete_pods_by_force() {
  local left namespace name
  left=$(pods_left) || die "the pods of $NODE_NAME could not be listed"
  while read -r namespace name _; do
    [[ -n $name ]] || continue
    log "deleting $namespace/$name by force"
    kube -n "$namespace" delete pod "$name" --grace-period=0 --force --wait=false --ignore-not-found >/dev/null 2>&1 ||
      die "$namespace/$name could not be deleted"
  done <<<"$left"
}

pods_are_gone() {
  local left
  left=$(pods_left) && [[ -z $left ]]
}

# pods_left: lines of NAMESPACE NAME TIME OWNER, of all but mirror pods and those of DaemonSets. TIME is
# when the pod should have ended, empty if no one has told it to.
pods_left() {
  kube get pods --all-namespaces --field-selector "spec.nodeName=$NODE_NAME" \
    -o jsonpath='{range .items[*]}{.metadata.namespace}{" "}{.metadata.name}{" "}{.metadata.deletionTimestamp}{" "}{.metadata.ownerReferences[0].kind}{"\n"}{end}' |
    sed '/ DaemonSet$/d; / Node$/d'
}
