#!/usr/bin/env bash
# The configuration of kube-proxy. Sourced, never run.

# configure_kube_proxy CONFIG: its settings, and the registry of its image. The upgrade changes the
# version of its pods, with the last control plane, which comes here too.
configure_kube_proxy() {
  local new pending=$STATE_DIR/kube-proxy
  step "kube-proxy"
  new=$(kubeadm init phase addon kube-proxy --config "$1" --print-manifest |
    awk 'BEGIN { RS = ORS = "---\n" } /(^|\n)kind: ConfigMap\n/') || die "kubeadm could not write kube-proxy's configuration"
  # A new kubelet may be restarting the API server at this moment.
  wait_for "${RESTART_TIMEOUT:-180}" "the API to accept kube-proxy's configuration" store_kube_proxy "$new" ||
    die "kube-proxy's configuration could not be stored: $(complaint kube -n kube-system get configmap kube-proxy)"
  [[ -e $pending ]] || return 0
  wait_for "${RESTART_TIMEOUT:-180}" "kube-proxy to restart" kube_proxy_restarts ||
    die "kube-proxy does not start with its new configuration. To see where: kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide"
  rm -f -- "$pending"
}

# Empty where a network add-on replaces kube-proxy.
kube_proxy_image() {
  image_of daemonset kube-proxy
}

# store_kube_proxy CONFIGMAP: the file `pending` says that its pods have yet to restart.
store_kube_proxy() {
  local image moved before after
  image=$(kube_proxy_image) || return
  [[ $image == *":$KUBERNETES_VERSION"* ]] || return 0
  before=$(kube -n kube-system get configmap kube-proxy -o jsonpath='{.data}') || return
  after=$(kube replace --dry-run=server -o jsonpath='{.data}' -f - <<<"$1") || return
  moved=$(moved_image "$image") || return
  if [[ -n $moved ]]; then
    kube replace -f - >/dev/null <<<"$1" || return
    # Not waited for: a worker may get the mirror of this registry only later in the update.
    kube -n kube-system set image daemonset kube-proxy kube-proxy="$moved" >/dev/null || return
    rm -f -- "$pending"
    return
  fi
  [[ $after != "$before" || -e $pending ]] || return 0
  : >"$pending"
  kube replace -f - >/dev/null <<<"$1" || return
  kube -n kube-system rollout restart daemonset kube-proxy >/dev/null
}

# Its pods restart one after the other: when the second one does, the first one is healthy.
kube_proxy_restarts() {
  local text wanted seen updated unavailable
  text=$(kube -n kube-system get daemonset kube-proxy -o jsonpath='{.metadata.generation}{"|"}{.status.observedGeneration}{"|"}{.status.updatedNumberScheduled}{"|"}{.status.numberUnavailable}') || return
  IFS='|' read -r wanted seen updated unavailable <<<"$text"
  [[ $seen == "$wanted" ]] && ((${updated:-0} > 1 || (${updated:-0} == 1 && ${unavailable:-0} == 0)))
}
