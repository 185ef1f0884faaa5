#!/usr/bin/env bash
# The static pods of the control plane. Sourced, never run.
# shellcheck disable=SC2154 # turn.sh sets obstacle

MANIFESTS=$KUBERNETES_DIR/manifests
# shellcheck disable=SC2034 # the files that renew and configure use it
STATIC_PODS=(etcd kube-apiserver kube-controller-manager kube-scheduler)

# For requests that have begun. The API server would also wait for its watches, whose clients go to another one.
STOP_SECONDS=10

# restart_in_turn LEFT: all of them, while the other control planes are well. The API server stops before
# etcd, which waits for its open watches, 15 seconds and more, and answers nothing meanwhile.
restart_in_turn() {
  local pods
  for pods in "kube-apiserver etcd" "kube-controller-manager kube-scheduler"; do
    wait_for 300 "the other control planes" others_are_well || die "$obstacle: $1"
    # shellcheck disable=SC2086 # several names
    restart_static_pods $pods
  done
}

# restart_static_pods NAME...: the kubelet starts their containers again.
restart_static_pods() {
  local pod id
  local -A stopped
  step "restart $*"
  for pod in "$@"; do
    stop_static_pod "$pod"
    stopped[$pod]=$id
  done
  for pod in "$@"; do
    wait_for_restart "$pod" "${stopped[$pod]}" || die "$pod does not start again" kubelet.service
  done
  wait_for_own_api
}

# stop_static_pods NAME...: they start again by themselves, and nothing is waited for.
stop_static_pods() {
  local pod id
  for pod in "$@"; do
    stop_static_pod "$pod"
  done
}

# stop_static_pod NAME: sets `id` to its container, which is empty if there is none.
stop_static_pod() {
  id=$(container_of "$1") || die "crictl does not answer" containerd.service
  [[ -z $id ]] || run crictl stop --timeout "$STOP_SECONDS" "$id" || die "$1 does not stop"
}

# wait_for_restart NAME CONTAINER: until it runs in another container than this.
wait_for_restart() {
  # The kubelet waits up to five minutes before it starts one that keeps ending.
  wait_for "${RESTART_TIMEOUT:-360}" "$1 to restart" runs_in_another_container "$@"
}

runs_in_another_container() {
  local now
  now=$(container_of "$1")
  [[ -n $now && $now != "$2" ]]
}

# restart_etcd MANIFEST: with this text, and waits until the API answers from it.
restart_etcd() {
  while_etcd_is_down write_file "$MANIFESTS/etcd.yaml" 0600 "$1"
  wait_for_own_api
}

# start_kubelet: a run that was killed, or an etcd volume that came late at boot, has left it stopped.
start_kubelet() {
  systemctl is-active --quiet kubelet.service || systemctl start kubelet.service ||
    die "the kubelet does not start" kubelet.service
}

# while_etcd_is_down COMMAND...: changes manifests; the kubelet, which starts then, starts their pods. The
# API server is stopped too: one that waits for etcd accepts connections and answers none, and a kubelet
# that talks to it waits for half a minute or two.
while_etcd_is_down() {
  at_exit 'systemctl start kubelet.service'
  systemctl stop kubelet.service || die "the kubelet does not stop" kubelet.service
  stop_static_pods kube-apiserver etcd
  "$@"
  systemctl start kubelet.service || die "the kubelet does not start" kubelet.service
  wait_for "${NODE_TIMEOUT:-60}" "the kubelet" kubelet_healthy || die "the kubelet does not stay up" kubelet.service
}
