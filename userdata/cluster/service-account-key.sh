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
# shellcheck source-path=SCRIPTDIR source=../cluster/every-node.sh
source "$HERE/cluster/every-node.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcd-members.sh
source "$HERE/cluster/etcd-members.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/unknown-control-planes.sh
source "$HERE/cluster/unknown-control-planes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/token-keys.sh
source "$HERE/cluster/token-keys.sh"

# Seconds. Clients read the file of their token again once a minute.
READ_AGAIN=${READ_AGAIN:-90}
CONTINUES="Both keys are accepted until then, and the next pulumi up continues"

rotate() {
  local key found
  local -a old=()
  key=$(key_id <"$FOLDER/service-account.pub") || die "service-account.pub is no public key"
  wait_for_api
  if is_the_only_key; then
    log "the API servers accept $key only: nothing is left to do"
    return
  fi
  refuse_unknown_control_planes "would refuse the tokens of the new key"
  step "phase 1 of 3: every API server accepts the old and the new key"
  in_turn service-account accept "$key"
  step "phase 2 of 3: every API server signs with the new key"
  in_turn service-account sign "$key"
  found=$(old_keys) || exit
  if [[ -n $found ]]; then
    mapfile -t old <<<"$found"
    replace_tokens
  fi
  step "phase 3 of 3: the API servers accept the new key only"
  in_turn service-account only "$key"
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
  local address accepted all=''
  for address in $CONTROL_PLANES; do
    accepted=$(accepted_keys "$address") || die "the API server at $address does not say which keys it accepts. $CONTINUES"
    all+=$'\n'$accepted
  done
  sort -u <<<"$all" | grep -vxF -e "$key" -e '' || true # none
}

# replace_tokens: everything that can be seen to use a token of an old key gets another one.
replace_tokens() {
  NODE_IP=${CONTROL_PLANES%% *} on_control_plane service-account secrets "${old[@]}" </dev/null ||
    die "Secrets have tokens of the old key: they are named above. $CONTINUES"
  refuse_unknown_nodes "its pods' tokens would be refused"
  step "pods' tokens of the new key"
  on_pods_of_every_node replace
  on_pods_of_every_node wait
  step "wait $READ_AGAIN s: pods read their tokens again once a minute"
  sleep "$READ_AGAIN"
}

on_pods_of_every_node() {
  on_every_node pod-tokens "$1" "${old[@]}"
  [[ -z $failed ]] ||
    die "the pods of $failed may still have tokens of the old key: the reason is above. $CONTINUES"
}

load_env NODE_NAME CONTROL_PLANES API_PORT ETCD_CLIENT_PORT ETCD_PEER_PORT
case $VERB in
  rotate) rotate ;;
  *) die "usage: service-account-key.sh rotate" ;;
esac
