#!/usr/bin/env bash
# Cordons and uncordons the node. Sourced, never run.
#
# The annotation of the Node says that these scripts have cordoned it. Without it the cordon belongs
# to someone else, such as an administrator or kured, and stays.
# shellcheck disable=SC2154 # nodes.sh sets node_*

CORDONED=openstack-kubernetes-cordoned

cordon() {
  step "cordon"
  find_node
  [[ $node_cordoned != true ]] || return 0
  set_cordon '"true"' true || die "$NODE_NAME could not be cordoned"
}

# Also ends the cordon of an earlier run that was interrupted.
uncordon() {
  # The last look at the Node may be one that failed, which shows no cordon.
  find_node
  if [[ -n $node_marked ]]; then
    step "uncordon"
    set_cordon null null || die "$NODE_NAME could not be uncordoned"
  elif [[ $node_cordoned == true ]]; then
    log "$NODE_NAME stays cordoned, because an administrator or kured cordoned it. When pods may run there again: kubectl uncordon $NODE_NAME"
  fi
}

# set_cordon MARK UNSCHEDULABLE: both in one request, so that no interruption can separate them.
set_cordon() {
  kube patch node "$NODE_NAME" --type=merge \
    --patch="{\"metadata\":{\"annotations\":{\"$CORDONED\":$1}},\"spec\":{\"unschedulable\":$2}}" >/dev/null
}
