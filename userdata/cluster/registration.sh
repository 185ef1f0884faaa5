#!/usr/bin/env bash
# The Node of this machine. Sourced, never run; after nodes.sh, by a script that has register_node.
# shellcheck disable=SC2154 # nodes.sh sets node_*
#
# A kubelet registers its Node when it starts, and never again. Whoever cleans up after a machine, a
# person or the cloud controller manager, may delete the Node of the one that takes its name.

# node_is_registered: sets node_* as read_node does. The Node is registered again for each 20 s that
# it is missing: a kubelet that starts needs a few.
node_is_registered() {
  read_node "$NODE_NAME" || return
  if [[ -n $node_exists ]]; then
    missing_since=''
    return
  fi
  local uptime
  read_uptime
  : "${missing_since:=$uptime}"
  if ((uptime - missing_since >= ${REGISTER_SECONDS:-20})); then
    log "the cluster has no Node $NODE_NAME: registering it again"
    register_node || log "the Node $NODE_NAME could not be registered from here"
    missing_since=$uptime
  fi
  return 1
}
