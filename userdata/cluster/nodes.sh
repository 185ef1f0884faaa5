#!/usr/bin/env bash
# The cluster's Nodes and their health. Sourced, never run.

# The message comes last: it may contain the separator.
NODE_FIELDS='{.metadata.name}{"|"}{.spec.unschedulable}{"|"}{.metadata.annotations.openstack-kubernetes-cordoned}{"|"}{.spec.providerID}{"|"}{.status.addresses[?(@.type=="InternalIP")].address}{"|"}{.status.nodeInfo.kubeletVersion}{"|"}{range .status.conditions[?(@.type=="Ready")]}{.status}{"|"}{.message}{end}'

# read_node NAME: sets node_* from the Node object; node_exists is empty if there is none.
read_node() {
  local text
  parse_node ''
  text=$(kube get node "$1" --ignore-not-found -o jsonpath="$NODE_FIELDS") || return
  parse_node "$text"
}

parse_node() {
  # shellcheck disable=SC2034 # the scripts that source this use them
  IFS='|' read -r node_exists node_cordoned node_marked node_provider node_address node_version node_ready node_message <<<"$1"
}

# Ready, or not Ready only because the cluster has no network add-on yet: that is installed after
# the control plane.
node_is_healthy() {
  [[ $node_ready != True ]] || return 0
  # Two reasons come as "[one, two]"; the one about CSINode appears briefly on every new node.
  local reason=${node_message#[}
  reason=${reason%]}
  reason=${reason/, CSINode is not yet initialized/}
  [[ $node_ready == False && $reason == *NetworkPluginNotReady* && $reason != *", "* ]] || return 1
  no_network_addon || return 1
  log "${node_exists:-a node} waits for the network add-on, which is not installed yet: accepted"
}

# A network add-on is a DaemonSet that writes into the CNI folder of every node.
no_network_addon() {
  local paths
  paths=$(kube get daemonsets --all-namespaces -o jsonpath='{.items[*].spec.template.spec.volumes[*].hostPath.path}') || return
  [[ " $paths " != *" /etc/cni/net.d"* && " $paths " != *" /etc/cni "* ]]
}

# A healthy node is not drained while another node is unhealthy. The others may be joining or being
# drained at this moment, so they are waited for.
wait_for_other_nodes() {
  wait_for "${OTHERS_TIMEOUT:-300}" "the other nodes to be Ready" others_are_healthy ||
    die "not Ready: ${unhealthy[*]}. Draining $NODE_NAME now could cost the cluster more than it can spare: repair or remove the nodes that are not Ready first, then run again"
}

# others_are_healthy: sets `unhealthy` to the names of the others that are not. One request reads
# every Node.
others_are_healthy() {
  local text line
  local -a lines
  unhealthy=("unknown, because the API did not list the nodes")
  text=$(kube get nodes -o jsonpath='{range .items[*]}'"$NODE_FIELDS"'{"\n"}{end}') || return
  unhealthy=()
  mapfile -t lines <<<"$text"
  for line in "${lines[@]}"; do
    # Anything else is a further line of a message.
    [[ $line == *"|"*"|"*"|"*"|"*"|"*"|"* ]] || continue
    parse_node "$line"
    [[ $node_exists == "$NODE_NAME" ]] || node_is_healthy || unhealthy+=("$node_exists")
  done
  ((${#unhealthy[@]} == 0))
}
