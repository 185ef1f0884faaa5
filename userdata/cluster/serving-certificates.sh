#!/usr/bin/env bash
# The kubelets' serving certificates, which the cluster's CA signs. Sourced, never run; after
# requests.sh and registration.sh.
# shellcheck disable=SC2154 # which sets request_*
#
# Root on one node must not get a certificate for another one's address. So a request is approved
# only if it names nothing but the node that sent it and the address that the node's label says,
# which no kubelet can change.

ADDRESS_LABEL="node-restriction.kubernetes.io/openstack-kubernetes-address"
SERVING_SIGNER=kubernetes.io/kubelet-serving

# trust_kubelet: until the API server accepts the serving certificate of this node.
trust_kubelet() {
  step "the kubelet's serving certificate"
  wait_for "${READY_TIMEOUT:-600}" "the kubelet's serving certificate" kubelet_is_trusted ||
    die "the API server does not trust the kubelet of $NODE_NAME: $(complaint kube get --raw "/api/v1/nodes/$NODE_NAME/proxy/healthz"). Its requests: kubectl get csr --field-selector spec.signerName=$SERVING_SIGNER"
  kube label node "$NODE_NAME" --overwrite "$ADDRESS_LABEL=$NODE_IP" >/dev/null ||
    die "the Node $NODE_NAME could not be labeled with its address"
}

kubelet_is_trusted() {
  ! kube get --raw "/api/v1/nodes/$NODE_NAME/proxy/healthz" >/dev/null 2>&1 || return 0
  node_is_registered || return 1
  # Many nodes may join at the same time: each looks at its own requests only.
  local -A address=(["$NODE_NAME"]=$NODE_IP)
  approve_requests "$NODE_NAME"
  return 1
}

# approve_serving_certificates: of every node.
approve_serving_certificates() {
  local -A address
  read_addresses || return
  approve_requests
}

# approve_requests [NODE]: those that wait and are sound by `address`, of this node or of all.
approve_requests() {
  local name user node request
  while read -r name user request; do
    [[ $user == system:node:* ]] || continue
    node=${user#system:node:}
    [[ $node == "${1:-$node}" ]] || continue
    if request_is_sound "$node" "${address[$node]:-}" "$request"; then
      kube certificate approve "$name" >/dev/null || return
      log "approved the serving certificate of $node"
    fi
  done < <(pending_requests "$SERVING_SIGNER")
}

# read_addresses: sets `address` by the names of the nodes.
read_addresses() {
  local text name label
  text=$(kube get nodes -o jsonpath="{range .items[*]}{.metadata.name}{' '}{.metadata.labels.${ADDRESS_LABEL//./\\.}}{'\n'}{end}") || return
  while read -r name label; do
    [[ -z $label ]] || address[$name]=$label
  done <<<"$text"
}

# request_is_sound NODE ADDRESS REQUEST
request_is_sound() {
  local name
  local -a names
  if [[ -z $2 ]]; then
    log "$1 asks for a serving certificate, but its Node has no label $ADDRESS_LABEL: not approved"
    return 1
  fi
  read_request "$3" || return
  IFS=', ' read -ra names < <(sed -n '/Subject Alternative Name/{n;s/IP Address:/IP:/g;p}' <<<"$request_text")
  if [[ $request_subject != "$(kubelet_subject "$1")" || ${#names[@]} == 0 ]]; then
    log "$1 asks for a certificate of \"$request_subject\", which no kubelet does: not approved"
    return 1
  fi
  for name in "${names[@]}"; do
    if [[ $name != "DNS:$1" && $name != "IP:$2" ]]; then
      log "$1 asks for a serving certificate for $name, which is neither its name nor $2: not approved"
      return 1
    fi
  done
}
