#!/usr/bin/env bash
# The cluster's API, as its administrator. Sourced, never run.

kube() {
  kubectl --kubeconfig "$FOLDER/kubeconfig" --request-timeout=20s "$@"
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
