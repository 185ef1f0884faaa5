#!/usr/bin/env bash
# The members of etcd. Sourced, never run; after etcdctl.sh.

# etcdctl_elsewhere ARGUMENT...: in the etcd pod of another control plane than this node.
etcdctl_elsewhere() {
  local pods pod node ready
  local -a etcdctl
  etcdctl_command "$@"
  pods=$(kube -n kube-system get pods -l component=etcd,tier=control-plane -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.nodeName}{" "}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}') ||
    return
  while read -r pod node ready; do
    [[ -n $pod && $node != "$NODE_NAME" && $ready == True ]] || continue
    timeout 30 kubectl --kubeconfig "$ADMIN_KUBECONFIG" -n kube-system exec "$pod" -- \
      "${etcdctl[@]}" </dev/null && return 0
    log "no answer from $pod: trying the next etcd"
  done <<<"$pods"
  log "no other control plane's etcd answers"
  return 1
}

# etcd_members: one line for each. An answer without any, or an incomplete one, is none: no member
# may be taken for missing because of it.
etcd_members() {
  local members
  members=$(etcdctl_elsewhere member list) || return
  if [[ ! $members =~ ,\ (true|false)$ ]]; then
    log "etcd's list of members is not complete: \"$members\""
    return 1
  fi
  printf '%s\n' "$members"
}

# remove_etcd_member: takes this node out of etcd, whether its member has ever started or not.
remove_etcd_member() {
  local members id status name peers rest
  members=$(etcd_members) || return
  while IFS=, read -r id status name peers rest; do
    if is_own_member; then
      log "removing this node's etcd member $id (${status# })"
      etcdctl_elsewhere member remove "$id" >/dev/null || return
    fi
  done <<<"$members"
}

# is_own_member: by the `name` and the `peers` that the caller has read.
is_own_member() {
  [[ ${name# } == "$NODE_NAME" || $peers == *"//$NODE_IP:$ETCD_PEER_PORT"* ]]
}

# The members that remain must be healthy in their majority.
require_quorum_without_node() {
  local members health voters=0 healthy=0 needed id status name peers clients learner own=''
  members=$(etcd_members) ||
    die "$NODE_NAME cannot be removed: no other control plane's etcd answers, so it may be the last one"
  # It fails when one is unhealthy, and says which.
  health=$(etcdctl_elsewhere endpoint health --cluster --command-timeout=5s 2>&1) || true
  while IFS=, read -r id status name peers clients learner; do
    [[ -n $id && ${learner# } != true ]] || continue
    if is_own_member; then
      own=$id
      continue
    fi
    voters=$((voters + 1))
    # A member that has never started has no address.
    [[ -z ${clients# } || $health != *"${clients# } is healthy"* ]] || healthy=$((healthy + 1))
  done <<<"$members"
  needed=$((voters / 2 + 1))
  if [[ -z $own ]]; then
    log "$NODE_NAME is not a member of etcd"
  elif ((voters == 0 || healthy < needed)); then
    die "$NODE_NAME cannot be removed: of the $voters other etcd members $healthy are healthy, and etcd needs $needed. Repair the unhealthy ones first"
  else
    log "etcd keeps $voters members without $NODE_NAME, $healthy of them healthy"
  fi
}

# Without a leader nothing can be read or written for an election timeout, which is seconds.
hand_over_leadership() {
  local members id status name peers clients learner endpoint=//$NODE_IP:$ETCD_CLIENT_PORT
  node_leads_etcd && members=$(etcd_members) || return 0
  step "hand over etcd's leadership"
  while IFS=, read -r id status name peers clients learner; do
    [[ ${status# } == started && ${learner# } != true && $clients != *"$endpoint"* ]] || continue
    if etcdctl_elsewhere --endpoints="https:$endpoint" move-leader "$id" >/dev/null; then
      log "${name# } leads etcd now"
      return
    fi
  done <<<"$members"
  log "no other member took over the leadership: etcd elects a leader when this one is gone"
}

# The first `true` or `false` in the member's line says whether it is the leader.
node_leads_etcd() {
  local line
  line=$(etcdctl_elsewhere endpoint status --cluster --command-timeout=5s 2>/dev/null | grep -F "//$NODE_IP:$ETCD_CLIENT_PORT,") || return
  [[ $line =~ ,\ (true|false), && ${BASH_REMATCH[1]} == true ]]
}
