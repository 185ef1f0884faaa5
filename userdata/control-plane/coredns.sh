#!/usr/bin/env bash
# CoreDNS, which kubeadm installs: where its pods run, and how many. Sourced, never run.

# kubeadm lets both pods run on the first control plane, and says so again with every upgrade.
configure_coredns() {
  [[ -n ${COREDNS_REPLICAS:-} ]] || return 0
  step "CoreDNS"
  wait_for "${RESTART_TIMEOUT:-180}" "the API to accept the placement of CoreDNS" place_coredns ||
    die "the placement of CoreDNS could not be stored: $(complaint kube -n kube-system get deployment coredns)"
}

place_coredns() {
  local image moved text
  image=$(image_of deployment coredns) || return
  # Where it is missing something else resolves names.
  [[ -n $image ]] || return 0
  moved=$(moved_image "$image") || return
  if [[ -n $moved ]]; then
    kube -n kube-system set image deployment coredns coredns="$moved" >/dev/null || return
    image=$moved
  fi
  text=$(render "$FILES/coredns-patch.json" COREDNS_REPLICAS) || return
  kube -n kube-system patch deployment coredns --patch "$text" >/dev/null || return
  kube apply -f - >/dev/null <"$FILES/coredns-budget.yaml" || return
  if [[ ${NODE_DNS:-false} == true ]]; then
    text=$(render "$FILES/node-dns.yaml" IMAGE="$image") || return
    kube apply -f - >/dev/null <<<"$text"
  else
    kube -n kube-system delete daemonset node-dns --ignore-not-found >/dev/null
  fi
}
