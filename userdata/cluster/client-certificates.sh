#!/usr/bin/env bash
# The kubelets' first client certificates. Sourced, never run; after requests.sh and tokens.sh.
# shellcheck disable=SC2154 # they set token_id and request_*
#
# Root on one machine must not become another node with the token that it is handed. So no
# controller approves what a token asks for: the script that has made the token does, and only a
# certificate for the node that it was made for.

CLIENT_SIGNER=kubernetes.io/kube-apiserver-client-kubelet

# with_approval COMMAND...: a join, which waits for its certificate.
with_approval() {
  local approver status=0
  approve_when_requested &
  approver=$!
  "$@" || status=$?
  kill "$approver" 2>/dev/null || true # done, or the join ended without it
  wait "$approver" || true
  return "$status"
}

approve_when_requested() {
  exec 9>&-
  trap - ERR EXIT
  trap 'exit 0' TERM
  local asked=0 pause=1
  until approve_client_certificate; do
    kill -0 "$$" 2>/dev/null || return 0 # the run has ended
    # Where many nodes join at the same time: each time, the API lists the requests of all of them.
    ((++asked < 10)) || pause=3
    sleep "${WAIT_PAUSE:-$pause}"
  done
}

# approve_client_certificate: status 1 as long as there is no request that is sound.
approve_client_certificate() {
  local name user request
  while read -r name user request; do
    [[ $user == "system:bootstrap:$token_id" ]] || continue
    if read_request "$request" && [[ $request_subject == "$(kubelet_subject "$NODE_NAME")" ]]; then
      kube certificate approve "$name" >/dev/null || return
      log "approved the client certificate of $NODE_NAME"
      return 0
    fi
    kube certificate deny "$name" >/dev/null || return
    log "$NODE_NAME asks for a client certificate of \"$request_subject\", which is not its own: denied"
  done < <(pending_requests "$CLIENT_SIGNER")
  return 1
}

# kubeadm lets a controller approve what every token of its own group asks for, and does so again
# with each init and upgrade. No one needs that here.
end_auto_approval() {
  wait_for 60 "the API" delete_auto_approval ||
    die "kubeadm's ClusterRoleBinding kubeadm:node-autoapprove-bootstrap could not be deleted"
}

delete_auto_approval() {
  kube delete clusterrolebinding kubeadm:node-autoapprove-bootstrap --ignore-not-found >/dev/null
}
