#!/usr/bin/env bash
# The cluster's API, as its administrator. Sourced, never run.

ADMIN_KUBECONFIG=$FOLDER/kubeconfig
# A script that a timer runs on a control plane was sent none; kubeadm has made one there.
[[ -e $ADMIN_KUBECONFIG ]] || ADMIN_KUBECONFIG=$KUBERNETES_DIR/admin.conf

kube() {
  kubectl --kubeconfig "$ADMIN_KUBECONFIG" --request-timeout=20s "$@"
}

api_answers() {
  kube get --raw /readyz >/dev/null 2>&1
}

# On a gateway, whose HAProxy leads to the API.
wait_for_api() {
  step "wait for the API"
  wait_for "${API_TIMEOUT:-600}" "the cluster's API" api_answers ||
    die "the API does not answer from this gateway: $(complaint kube get --raw /readyz)" haproxy.service
}
