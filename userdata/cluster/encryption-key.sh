#!/usr/bin/env bash
# The key that encrypts Secrets in etcd. Runs on the active gateway, which learns no key.
#
#   encryption-key.sh rotate   all Secrets are encrypted with the first provider of ENCRYPTION, and the
#                              API servers forget those that are not in ENCRYPTION. Each phase begins
#                              when every control plane has done the one before; what the machines and
#                              etcd show says what is left to do.

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
# shellcheck source-path=SCRIPTDIR source=../cluster/unknown-control-planes.sh
source "$HERE/cluster/unknown-control-planes.sh"

ROLE=control-plane

rotate() {
  local -a providers
  read -ra providers <<<"$ENCRYPTION"
  wait_for_api
  all_know_only "${providers[@]}" || refuse_unknown_control_planes "could not read Secrets any more"
  step "phase 1 of 3: every API server can read what ${providers[0]} encrypts"
  on_every_control_plane encrypt read "${providers[0]}"
  step "phase 2 of 3: every API server encrypts with ${providers[0]}, and every Secret is encrypted with it"
  on_every_control_plane encrypt first "${providers[0]}"
  NODE_IP=${CONTROL_PLANES%% *} on_node_script encrypt rewrite "${providers[0]}" </dev/null ||
    die "not every Secret is encrypted with ${providers[0]}: the reason is above. Every Secret can be read, and the next pulumi up continues"
  step "phase 3 of 3: the API servers know ${providers[*]} only"
  on_every_control_plane encrypt only "${providers[@]}"
}

# all_know_only NAME...: no key is forgotten any more, so a control plane that leaves may still be there.
all_know_only() {
  local address known
  for address in $CONTROL_PLANES; do
    known=$(NODE_IP=$address on_node_script providers </dev/null | tr '\n' ' ') && [[ $known == "$* " ]] ||
      return 1
  done
}

# on_every_control_plane VERB...: on all at the same time.
on_every_control_plane() {
  local address failed=''
  local -A pids
  for address in $CONTROL_PLANES; do
    { NODE_IP=$address on_node_script "$@" </dev/null || exit; } &
    pids[$address]=$!
  done
  for address in $CONTROL_PLANES; do
    wait "${pids[$address]}" || failed+=" $address"
  done
  [[ -z $failed ]] ||
    die "the control plane at$failed did not do this: the reason is above. Every Secret can be read, and the next pulumi up continues"
}

load_env NODE_NAME SSH_USER CONTROL_PLANES ENCRYPTION ETCD_CLIENT_PORT ETCD_PEER_PORT
case $VERB in
  rotate) rotate ;;
  *) die "usage: encryption-key.sh rotate" ;;
esac
