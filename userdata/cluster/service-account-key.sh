#!/usr/bin/env bash
# The key that signs the tokens of service accounts. Runs on the active gateway, which learns no
# private key.
#
#   service-account-key.sh rotate   the API servers sign with the key of service-account.pub, pods have
#                                   tokens of it, and it is the only one that the API servers accept.
#                                   Each phase begins when everyone has done the one before; what the
#                                   API servers and the nodes show says what is left to do.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/ssh.sh
source "$HERE/cluster/ssh.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcd-members.sh
source "$HERE/cluster/etcd-members.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/other-control-planes.sh
source "$HERE/cluster/other-control-planes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/token-keys.sh
source "$HERE/cluster/token-keys.sh"

# Nodes that are asked at the same time.
AT_ONCE=10
# Seconds. Clients read the file of their token again once a minute.
READ_AGAIN=${READ_AGAIN:-90}
CONTINUES="Both keys are accepted until then, and the next pulumi up continues"

rotate() {
  local key
  local -a old
  key=$(key_id <"$FOLDER/service-account.pub") || die "service-account.pub is no public key"
  wait_for_api
  if is_the_only_key; then
    log "the API servers accept $key only: nothing is left to do"
    return
  fi
  refuse_other_control_planes "would refuse the tokens of the new key"
  step "phase 1 of 3: every API server accepts the old and the new key"
  in_turn accept "$key"
  step "phase 2 of 3: every API server signs with the new key"
  in_turn sign "$key"
  mapfile -t old < <(old_keys)
  if ((${#old[@]} > 0)); then
    replace_tokens
  fi
  step "phase 3 of 3: the API servers accept the new key only"
  in_turn only "$key"
}

# is_the_only_key: for every API server.
is_the_only_key() {
  local address
  for address in $CONTROL_PLANES; do
    [[ $(accepted_keys "$address" 2>/dev/null || true) == "$key" ]] || return 1
  done
}

# old_keys: those that any API server still accepts.
old_keys() {
  local address accepted
  for address in $CONTROL_PLANES; do
    accepted=$(accepted_keys "$address") || die "the API server at $address does not say which keys it accepts. $CONTINUES"
    printf '%s\n' "$accepted"
  done | sort -u | grep -vxF -e "$key" || true # none
}

# in_turn STEP KEY: on one control plane after the other.
in_turn() {
  local address
  for address in $CONTROL_PLANES; do
    NODE_IP=$address on_control_plane service-account "$@" ||
      die "the control plane at $address did not do this: the reason is above. $CONTINUES"
  done
}

on_control_plane() {
  local ROLE=control-plane SSH_USER=''
  SSH_USER=$(awk -v address="$NODE_IP" '$4 == address { print $3 }' "$FOLDER/nodes")
  on_node_script "$@" </dev/null
}

# replace_tokens: everything that can be seen to use a token of an old key gets another one.
replace_tokens() {
  NODE_IP=${CONTROL_PLANES%% *} on_control_plane service-account secrets "${old[@]}" ||
    die "Secrets have tokens of the old key: they are named above. $CONTINUES"
  refuse_unknown_nodes
  step "pods' tokens of the new key"
  on_every_node pod-tokens replace "${old[@]}"
  on_every_node pod-tokens wait "${old[@]}"
  step "wait $READ_AGAIN s: pods read their tokens again once a minute"
  sleep "$READ_AGAIN"
}

# No one can ask a node that the configuration does not have for its pods' tokens.
refuse_unknown_nodes() {
  local names name
  names=$(kube get nodes -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}') ||
    die "the nodes could not be listed. $CONTINUES"
  for name in $names; do
    cut -d ' ' -f 1 "$FOLDER/nodes" | grep -qxF -e "$name" ||
      die "the node $name is not in the configuration, and its pods' tokens would be refused: put it back or delete it (kubectl drain and delete node), then pulumi up. $CONTINUES"
  done
}

# on_every_node VERB...: some at the same time.
on_every_node() {
  local name ROLE SSH_USER address running=0 failed=$FOLDER/failed
  : >"$failed"
  while read -r name ROLE SSH_USER address; do
    if ((running >= AT_ONCE)); then
      wait -n || true # it has written its name
      running=$((running - 1))
    fi
    { NODE_IP=$address on_node_script "$@" </dev/null || echo "$name" >>"$failed"; } &
    running=$((running + 1))
  done <"$FOLDER/nodes"
  wait
  [[ ! -s $failed ]] ||
    die "the pods of $(sort "$failed" | paste -sd ' ') may still have tokens of the old key: the reason is above. $CONTINUES"
}

load_env NODE_NAME CONTROL_PLANES API_PORT ETCD_CLIENT_PORT ETCD_PEER_PORT
case $VERB in
  rotate) rotate ;;
  *) die "usage: service-account-key.sh rotate" ;;
esac
