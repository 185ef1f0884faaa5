#!/usr/bin/env bash
# The cluster, through kubectl: its Nodes, its tokens, its etcd. Sourced, never run.

kube() {
  kubectl --kubeconfig "$FOLDER/kubeconfig" --request-timeout=20s "$@"
}

api_answers() {
  kube get --raw /readyz >/dev/null 2>&1
}

# Annotation of a Node that a gate has cordoned; without it the cordon is a person's, or kured's.
CORDONED=openstack-kubernetes-cordoned

# read_node NAME: sets node_* from the Node object; node_exists is empty when there is none.
read_node() {
  local text
  node_exists='' node_cordoned='' node_marked='' node_provider='' node_address='' node_version='' node_ready='' node_message=''
  text=$(kube get node "$1" --ignore-not-found -o jsonpath='{.metadata.name}{"|"}{.spec.unschedulable}{"|"}{.metadata.annotations.'$CORDONED'}{"|"}{.spec.providerID}{"|"}{.status.addresses[?(@.type=="InternalIP")].address}{"|"}{.status.nodeInfo.kubeletVersion}{"|"}{range .status.conditions[?(@.type=="Ready")]}{.status}{"|"}{.message}{end}') ||
    return
  # shellcheck disable=SC2034 # the scripts that source this use them
  IFS='|' read -r node_exists node_cordoned node_marked node_provider node_address node_version node_ready node_message <<<"$text"
}

# mint_token: a bootstrap token that lives for 15 minutes and goes when this script ends.
mint_token() {
  local secret
  token_id=$(random_text 6)
  secret=$(random_text 16)
  token=$token_id.$secret
  at_exit forget_token
  kube create -f - >/dev/null <<EOT || return
apiVersion: v1
kind: Secret
metadata:
  name: bootstrap-token-$token_id
  namespace: kube-system
type: bootstrap.kubernetes.io/token
stringData:
  description: made by openstack-kubernetes for $NODE_NAME to join with
  token-id: "$token_id"
  token-secret: "$secret"
  expiration: $(date -u -d '+15 minutes' +%Y-%m-%dT%H:%M:%SZ)
  usage-configure-authentication: "true"
  usage-configure-signing: "true"
  auth-extra-groups: system:bootstrappers:kubeadm:default-node-token
EOT
}

forget_token() {
  [[ -n ${token_id:-} ]] || return 0
  kube -n kube-system delete secret "bootstrap-token-$token_id" --ignore-not-found >/dev/null ||
    log "the join token could not be deleted: it ends by itself within 15 minutes"
  token_id=''
}

random_text() {
  local text=''
  while ((${#text} < $1)); do
    text+=$(head -c 512 /dev/urandom | tr -dc 'a-z0-9')
  done
  printf '%s' "${text:0:$1}"
}

# discovery: the kubeconfig that `kubeadm join` finds the cluster by. The CA certificate is the
# one that the admin kubeconfig trusts.
discovery() {
  local ca
  ca=$(kube config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}')
  [[ -n $ca ]] || die "the kubeconfig in the folder has no certificate-authority-data"
  cat <<EOT
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    server: https://$API_NAME:7443
    certificate-authority-data: $ca
users:
- name: join
  user:
    token: "$token"
contexts:
- name: join
  context:
    cluster: kubernetes
    user: join
current-context: join
EOT
}

# etcdctl of the member in whose container it runs.
ETCD_PKI=/etc/kubernetes/pki/etcd
ETCDCTL=(etcdctl --endpoints=https://127.0.0.1:2379 --cacert="$ETCD_PKI/ca.crt"
  --cert="$ETCD_PKI/healthcheck-client.crt" --key="$ETCD_PKI/healthcheck-client.key")

# etcdctl_elsewhere ARGUMENT...: in the etcd pod of another control plane than this node.
etcdctl_elsewhere() {
  local pods pod node ready
  pods=$(kube -n kube-system get pods -l component=etcd,tier=control-plane -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.nodeName}{" "}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}') ||
    return
  while read -r pod node ready; do
    [[ -n $pod && $node != "$NODE_NAME" && $ready == True ]] || continue
    timeout 30 kubectl --kubeconfig "$FOLDER/kubeconfig" -n kube-system exec "$pod" -- \
      "${ETCDCTL[@]}" "$@" </dev/null && return 0
    log "no answer from $pod: trying the next etcd"
  done <<<"$pods"
  log "no other control plane's etcd answers"
  return 1
}

# remove_etcd_member: takes this node out of etcd, whether it started there or not.
remove_etcd_member() {
  local members id status name peers rest
  members=$(etcdctl_elsewhere member list) || return
  while IFS=, read -r id status name peers rest; do
    if [[ ${name# } == "$NODE_NAME" || $peers == *"//$NODE_IP:2380"* ]]; then
      log "removing this node's etcd member $id (${status# })"
      etcdctl_elsewhere member remove "$id" >/dev/null || return
    fi
  done <<<"$members"
}
