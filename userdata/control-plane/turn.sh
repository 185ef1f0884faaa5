#!/usr/bin/env bash
# The turn: one control plane at a time restarts its etcd and its API server. Sourced, never run.

TURN=openstack-kubernetes-turn # a Lease
# Longer than a control plane needs; then the turn of one that was lost ends.
TURN_SECONDS=1800
NEEDS_OTHERS=true # `false`: neither their health nor a reboot of theirs matters any more

# take_turn PURPOSE: status 1 if another one has the turn, or is not healthy: a later try may succeed.
take_turn() {
  others_are_well && lease_turn "$1" && return
  log "not now: $obstacle"
  return 1
}

# wait_for_turn PURPOSE: for a change that someone waits for, which may be the repair of this very
# control plane. So it asks for no one's health, and without an API there is no turn. The API may only be
# pausing because the one that has the turn restarts.
wait_for_turn() {
  step "the turn of this control plane"
  wait_for "${OWN_API_TIMEOUT:-60}" "the API" api_answers || return 0
  ! lease_turn "$1" || return 0
  log "not yet: $obstacle"
  WAIT_PAUSE=${WAIT_PAUSE:-3} wait_for "$TURN_SECONDS" "the turn" lease_turn "$1" ||
    die "it is not this control plane's turn: $obstacle"
}

end_turn() {
  read_turn || return 0
  [[ $turn_holder == "$NODE_NAME" ]] || return 0
  kube -n kube-system patch lease "$TURN" --type=merge --patch='{"spec":{"holderIdentity":null}}' >/dev/null ||
    log "the turn could not be given back: it ends by itself"
}

# lease_turn PURPOSE: sets `obstacle` if it fails, as others_are_well does.
lease_turn() {
  local manifest
  obstacle="the Lease $TURN cannot be read or written"
  read_turn || return
  if [[ -n $turn_holder && $turn_holder != "$NODE_NAME" ]] &&
    (($(date +%s) < $(date -d "$turn_renewed" +%s) + TURN_SECONDS)); then
    obstacle="$turn_holder has the turn since $turn_renewed (kubectl -n kube-system get lease $TURN)"
    return 1
  fi
  hold_reboots "$NODE_NAME" || [[ $NEEDS_OTHERS == false ]] || return
  obstacle="the Lease $TURN cannot be read or written"
  # Two that write at the same time: the first one wins, for the other has an old version or none.
  manifest=$(render "$HERE/control-plane/files/turn.yaml" TURN NODE_NAME TURN_SECONDS PURPOSE="$1" \
    VERSION="$turn_version" NOW="$(date -u +%Y-%m-%dT%H:%M:%S.000000Z)") || return
  kube "${turn_verb[@]}" -f - >/dev/null <<<"$manifest" || return
  at_exit end_turn
}

# read_turn: sets turn_holder and turn_renewed, and turn_verb and turn_version to write it with.
read_turn() {
  local text
  text=$(kube -n kube-system get lease "$TURN" --ignore-not-found -o \
    jsonpath='{.metadata.resourceVersion}{"|"}{.spec.holderIdentity}{"|"}{.spec.renewTime}') || return
  IFS='|' read -r turn_version turn_holder turn_renewed <<<"$text"
  turn_verb=(replace)
  [[ -n $turn_version ]] || turn_verb=(create)
}

# others_are_well: whether every member of etcd is healthy, and the API server next to each other one
# ready.
others_are_well() {
  local members name clients address etcd
  [[ $NEEDS_OTHERS == true ]] || return 0
  obstacle="a member of etcd is not healthy"
  etcd=$(container_of etcd)
  [[ -n $etcd ]] || return 1
  etcdctl_in "$etcd" endpoint health --cluster --command-timeout=5s >/dev/null 2>&1 || return 1
  members=$(etcdctl_in "$etcd" member list) && [[ -n $members ]] || return 1
  while IFS=, read -r _ _ name _ clients _; do
    address=${clients##*//}
    address=${address%:*}
    [[ $address != "$NODE_IP" ]] || continue
    # It has none until its etcd has started.
    name=${name# }
    obstacle="the API server of ${name:-a control plane that joins} is not ready"
    api_ready "$address:$API_PORT" || return 1
  done <<<"$members"
}
