#!/usr/bin/env bash
# The cluster's Nodes and their health. Sourced, never run.

# The message comes last: it may contain the separator.
NODE_FIELDS='{.metadata.name}{"|"}{.spec.unschedulable}{"|"}{.metadata.annotations.openstack-kubernetes-cordoned}{"|"}{.spec.providerID}{"|"}{.status.addresses[?(@.type=="InternalIP")].address}{"|"}{.status.nodeInfo.kubeletVersion}{"|"}{.metadata.annotations.openstack-kubernetes-pool}{"|"}{.metadata.annotations.openstack-kubernetes-max-unhealthy}{"|"}{.status.conditions[?(@.type=="Ready")].status}{"|"}{.status.conditions[?(@.type=="Ready")].message}'

# read_node NAME: sets node_* from the Node object; node_exists is empty if there is none.
read_node() {
  local text
  parse_node ''
  text=$(kube get node "$1" --ignore-not-found -o jsonpath="$NODE_FIELDS") || return
  parse_node "$text"
}

# find_node: read_node of this node, for which it waits: the API server may be restarting.
find_node() {
  wait_for "${NODE_TIMEOUT:-60}" "the API to say whether there is a Node $NODE_NAME" read_node "$NODE_NAME" ||
    die "the API does not say whether there is a Node $NODE_NAME"
}

delete_node() {
  kube delete node "$NODE_NAME" --ignore-not-found >/dev/null
}

parse_node() {
  # shellcheck disable=SC2034 # the scripts that source this use them
  IFS='|' read -r node_exists node_cordoned node_marked node_provider node_address node_version node_pool node_limit node_ready node_message <<<"$1"
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

# A healthy node is not drained while others are unhealthy, but for the share that each pool may
# have. The others may be joining or being drained at this moment, so they are waited for.
wait_for_other_nodes() {
  WAIT_PAUSE=${WAIT_PAUSE:-3} wait_for "${OTHERS_TIMEOUT:-300}" "the other nodes to be Ready" others_are_healthy ||
    die "not Ready: ${unhealthy[*]}. Draining $NODE_NAME now could cost the cluster more than it can spare: repair or remove the nodes that are not Ready first, then run again. The maxUnhealthy of a pool says how many of its nodes may be"
}

# others_are_healthy: sets `unhealthy` to the names of the others that are not, without those of a
# pool that may have as many. One request reads every Node.
others_are_healthy() {
  local text line pool
  local -a lines names
  local -A size=() limit=() down=()
  unhealthy=("unknown, because the API did not list the nodes")
  text=$(kube get nodes -o jsonpath='{range .items[*]}'"$NODE_FIELDS"'{"\n"}{end}') || return
  unhealthy=()
  mapfile -t lines <<<"$text"
  for line in "${lines[@]}"; do
    # Anything else is a further line of a message.
    [[ $line == *"|"*"|"*"|"*"|"*"|"*"|"*"|"*"|"*"|"* ]] || continue
    parse_node "$line"
    # A node of no pool is a control plane, and the cluster can spare none.
    pool=${node_pool:-/}
    size[$pool]=$((${size[$pool]:-0} + 1))
    if [[ $node_exists == "$NODE_NAME" ]] || node_is_healthy; then
      limit[$pool]=$node_limit
    else
      # A node that is down may have missed the last change of the limit.
      limit[$pool]=${limit[$pool]:-$node_limit}
      down[$pool]+=" $node_exists"
    fi
  done
  for pool in "${!down[@]}"; do
    read -ra names <<<"${down[$pool]}"
    ((${#names[@]} <= $(share "${limit[$pool]}" "${size[$pool]}"))) || unhealthy+=("${names[@]}")
  done
  ((${#unhealthy[@]} == 0))
}

# share LIMIT SIZE: the limit is a number, or a percentage of the size, rounded down; else none. Any
# kubelet may write it, so nothing else of it is evaluated.
share() {
  local number=0
  [[ ! $1 =~ ^([0-9]{1,4})%?$ ]] || number=$((10#${BASH_REMATCH[1]}))
  [[ $1 != *% ]] || number=$((number * $2 / 100))
  printf '%s' "$number"
}
