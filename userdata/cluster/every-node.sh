#!/usr/bin/env bash
# Steps of a rotation on the machines, from the active gateway. Sourced, never run; after ssh.sh.
# The file NODES, `nodes` of the folder, has a line for each: name, role, SSH user, address. INPUT is
# what the steps on nodes read, MEANWHILE a command that they need.

# Nodes that are asked at the same time.
AT_ONCE=10

# in_turn VERB...: on one control plane after the other.
in_turn() {
  local address
  for address in $CONTROL_PLANES; do
    NODE_IP=$address on_control_plane "$@" </dev/null ||
      die "the control plane at $address did not do this: the reason is above. $CONTINUES"
  done
}

on_control_plane() {
  local ROLE=control-plane SSH_USER=''
  SSH_USER=$(awk -v address="$NODE_IP" '$4 == address { print $3 }' "$FOLDER/nodes")
  on_node_script "$@"
}

# on_every_node VERB...: some at the same time. Sets `failed` to the names of those that did not do it.
on_every_node() {
  local name ROLE SSH_USER address nodes=${NODES:-$FOLDER/nodes} succeeded=$FOLDER/succeeded
  : >"$succeeded"
  # shellcheck disable=SC2034 # ssh.sh uses ROLE and SSH_USER
  while read -r name ROLE SSH_USER address; do
    wait_for_fewer "$AT_ONCE"
    { NODE_IP=$address on_node_script "$@" <"${INPUT:-/dev/null}" && echo "$name" >>"$succeeded"; } &
  done <"$nodes"
  wait_for_fewer 1
  # Also those whose process here was killed.
  # shellcheck disable=SC2034 # the scripts that source this use it
  failed=$(comm -23 <(cut -d ' ' -f 1 "$nodes" | sort) <(sort "$succeeded") | paste -sd ' ')
}

# wait_for_fewer COUNT: nodes that are being asked. Meanwhile runs what they wait for.
wait_for_fewer() {
  while (($(jobs -rp | wc -l) >= $1)); do
    "${MEANWHILE:-true}" || true # the next time
    sleep "${WAIT_PAUSE:-0.2}"
  done
}

# refuse_unknown_nodes LOSS: no one can ask a node that the configuration does not have.
refuse_unknown_nodes() {
  local names name known
  known=$(cut -d ' ' -f 1 "$FOLDER/nodes")
  names=$(kube get nodes -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}') ||
    die "the nodes could not be listed. $CONTINUES"
  for name in $names; do
    grep -qxF -e "$name" <<<"$known" ||
      die "the node $name is not in the configuration, and $1: put it back or delete it (kubectl drain and delete node), then pulumi up. $CONTINUES"
  done
}
