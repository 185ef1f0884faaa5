#!/usr/bin/env bash
# Credentials for a machine that joins: a bootstrap token and the discovery file. Sourced, never run.

# mint_token: sets `token`, which is valid for 15 minutes and deleted when this script ends.
mint_token() {
  local secret manifest
  delete_token # of an attempt before this one
  # The first join creates them; a newer release may have changed them.
  kube apply --server-side --force-conflicts --field-manager=openstack-kubernetes \
    -f "$HERE/cluster/files/join-rights.yaml" >/dev/null || return
  token_id=$(random_text 6)
  secret=$(random_text 16)
  token=$token_id.$secret
  at_exit delete_token
  manifest=$(render "$HERE/cluster/files/join-token.yaml" NODE_NAME TOKEN_ID="$token_id" \
    TOKEN_SECRET="$secret" EXPIRATION="$(date -u -d '+15 minutes' +%Y-%m-%dT%H:%M:%SZ)") ||
    return
  kube create -f - >/dev/null <<<"$manifest"
}

delete_token() {
  [[ -n ${token_id:-} ]] || return 0
  kube -n kube-system delete secret "bootstrap-token-$token_id" --ignore-not-found >/dev/null ||
    log "the join token could not be deleted: it expires within 15 minutes"
  token_id=''
}

random_text() {
  local text=''
  while ((${#text} < $1)); do
    text+=$(head -c 512 /dev/urandom | tr -dc 'a-z0-9')
  done
  printf '%s' "${text:0:$1}"
}

# discovery: the kubeconfig by which `kubeadm join` finds the cluster. Its CA certificate is the one
# that the folder's kubeconfig trusts.
discovery() {
  local ca config
  ca=$(kube config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}')
  [[ -n $ca ]] || die "$FOLDER/kubeconfig has no certificate-authority-data"
  config=$(render "$HERE/cluster/files/discovery.yaml" API_NAME LOCAL_API_PORT CA="$ca" TOKEN="$token") ||
    return
  printf '%s\n' "$config"
}
