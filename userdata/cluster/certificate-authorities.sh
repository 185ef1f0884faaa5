#!/usr/bin/env bash
# The certificate authorities of the cluster. Runs on the active gateway, which learns no private key.
#
#   certificate-authorities.sh rotate   what PHASE says: `issue` has the newest CAs trusted, and then issue
#                                       all that machines serve and use; `forget` has nothing accept others,
#                                       when those that came since then have done the same

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/ssh.sh
source "$HERE/cluster/ssh.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/every-node.sh
source "$HERE/cluster/every-node.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcd-members.sh
source "$HERE/cluster/etcd-members.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/unknown-control-planes.sh
source "$HERE/cluster/unknown-control-planes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/requests.sh
source "$HERE/cluster/requests.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/serving-certificates.sh
source "$HERE/cluster/serving-certificates.sh"

CONTINUES="Both CAs are trusted until then, and the next pulumi up continues"
INPUT=$FOLDER/authority.crt # of the steps on nodes

# Annotation of the namespace kube-system: the newest CA, and which phase of it has ended. Nodes that come
# or leave later need nothing more, and need not all answer.
ENDED=openstack-kubernetes-certificate-authorities

issue() {
  refuse_unknown_control_planes "would be shut out by the new CAs"
  refuse_unknown_nodes "it would not trust the new CAs"
  step "part 1 of 3: everything trusts the old and the new CAs"
  in_turn authorities trust
  on_workers trust
  step "part 2 of 3: the control planes issue with the new CAs, and use what they have issued"
  in_turn authorities issue
  step "part 3 of 3: the kubelets have certificates of the new CAs"
  restart_metrics_server
  issue_to_kubelets
}

forget() {
  refuse_unknown_control_planes "would not forget the old CAs"
  refuse_unknown_nodes "it would not forget the old CAs"
  # Machines that joined when `issue` had ended, in a repetition of its update, began with the old CAs.
  step "part 1 of 3: machines that came later issue with the new CAs too, and have certificates of them"
  in_turn authorities issue
  issue_to_kubelets
  step "part 2 of 3: everything is of the new CAs"
  on_every_node authorities check
  refuse_failed "have certificates of the old CAs"
  step "part 3 of 3: nothing accepts the old CAs"
  in_turn authorities forget
  wait_for "${PUBLISH_TIMEOUT:-120}" "the API servers to publish the new CAs only" only_newest_published ||
    die "the ConfigMap extension-apiserver-authentication still has other CAs: the next pulumi up continues"
  on_workers trust
}

# only_newest_published: servers that ask the API whom to trust, as the scheduler and metrics-server do, read
# this. API servers only add to it; when it is gone they write what they accept now.
only_newest_published() {
  local name=extension-apiserver-authentication published
  published=$(kube -n kube-system get configmap "$name" --ignore-not-found -o jsonpath='{.data.client-ca-file}') ||
    return
  [[ $published != "$(<"$INPUT")" ]] || return 0
  [[ -z $published ]] || kube -n kube-system delete configmap "$name" >/dev/null
  return 1
}

# issue_to_kubelets: those that have certificates of the new CA do nothing.
issue_to_kubelets() {
  MEANWHILE=approve_serving_certificates on_every_node authorities certificates
  refuse_failed "have no certificates of the new CA"
}

# on_workers STEP: of their kubelets; those of control planes follow with the rest.
on_workers() {
  awk '$2 == "worker"' "$FOLDER/nodes" >"$FOLDER/workers"
  NODES=$FOLDER/workers on_every_node authorities "$1"
  refuse_failed "did not do this"
}

refuse_failed() {
  [[ -z $failed ]] || die "these nodes $1: $failed. The reason is above. $CONTINUES"
}

# It reads whom it trusts when it starts, and asks all kubelets. One that has started since is left alone.
restart_metrics_server() {
  local installed
  installed=$(kube -n kube-system get deployment metrics-server --ignore-not-found -o name) ||
    die "the API does not say whether there is a metrics-server. $CONTINUES"
  [[ -n $installed ]] || return 0
  wait_for 120 "the pods' copy of the new CA" pods_get_authority ||
    die "the ConfigMap kube-root-ca.crt does not have the new CA: do the controller managers run?"
  kube -n kube-system patch deployment metrics-server --patch \
    '{"spec":{"template":{"metadata":{"annotations":{"openstack-kubernetes-authority":"'"$(authority_id)"'"}}}}}' >/dev/null ||
    die "metrics-server could not be restarted"
  kube -n kube-system rollout status deployment metrics-server --timeout=180s >/dev/null ||
    log "metrics-server is not ready yet"
}

pods_get_authority() {
  local line
  line=$(sed -n 2p "$INPUT")
  kube -n kube-system get configmap kube-root-ca.crt -o jsonpath='{.data.ca\.crt}' | grep -qF -e "$line"
}

authority_id() {
  sha256sum <"$INPUT" | head -c 16
}

# has_ended PHASE
has_ended() {
  local ended
  ended=$(kube get namespace kube-system -o jsonpath="{.metadata.annotations.$ENDED}") && [[ $ended == "$(authority_id)-$1" ]]
}

# note_end PHASE
note_end() {
  kube annotate --overwrite namespace kube-system "$ENDED=$(authority_id)-$1" >/dev/null ||
    die "the end of this phase could not be recorded. $CONTINUES"
}

load_env NODE_NAME CONTROL_PLANES PHASE API_PORT ETCD_CLIENT_PORT ETCD_PEER_PORT
[[ $VERB == rotate ]] || die "usage: certificate-authorities.sh rotate"
[[ $PHASE == issue || $PHASE == forget ]] || die "PHASE is neither issue nor forget"
wait_for_api
if has_ended "$PHASE"; then
  log "nothing to do: this has ended"
  # A control plane that was replaced since then has begun with the old issuer.
  [[ $PHASE != issue ]] || in_turn authorities issue
else
  "$PHASE"
  note_end "$PHASE"
fi
