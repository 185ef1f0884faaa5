#!/usr/bin/env bash
# The static pods of the control plane. Sourced, never run.

MANIFESTS=$KUBERNETES_DIR/manifests
# shellcheck disable=SC2034 # the files that renew and configure use it
STATIC_PODS=(etcd kube-apiserver kube-controller-manager kube-scheduler)

# restart_static_pod NAME: the kubelet starts its container again.
restart_static_pod() {
  local id
  step "restart $1"
  id=$(container_of "$1") || die "crictl does not answer" containerd.service
  [[ -z $id ]] || run crictl stop --timeout 30 "$id" || die "$1 does not stop"
  wait_for_restart "$1" "$id" || die "$1 does not start again" kubelet.service
  wait_for_own_api
}

# wait_for_restart NAME CONTAINER: until it runs in another container than this.
wait_for_restart() {
  wait_for "${RESTART_TIMEOUT:-180}" "$1 to restart" runs_in_another_container "$@"
}

runs_in_another_container() {
  local now
  now=$(container_of "$1")
  [[ -n $now && $now != "$2" ]]
}

# restart_etcd MANIFEST: with this text, and waits until the API answers from it. The API server is
# stopped too: one that waits for etcd accepts connections and answers none, and a kubelet that
# starts next to it does nothing for two minutes.
restart_etcd() {
  local pod id
  at_exit 'systemctl start kubelet.service'
  systemctl stop kubelet.service || die "the kubelet does not stop" kubelet.service
  for pod in kube-apiserver etcd; do
    id=$(container_of "$pod") || die "crictl does not answer" containerd.service
    [[ -z $id ]] || run crictl stop --timeout 10 "$id" || die "$pod does not stop"
  done
  write_file "$MANIFESTS/etcd.yaml" 0600 "$1"
  systemctl start kubelet.service || die "the kubelet does not start" kubelet.service
  wait_for_own_api
}
