#!/usr/bin/env bash
# Upgrades this control plane. Sourced, never run.

api_server_version() {
  sed -n 's/^ *image: .*kube-apiserver:\([^@]*\).*$/\1/p' "$MANIFESTS/kube-apiserver.yaml"
}

# kubeadm copies etcd's whole folder, and etcd must never find its disk full.
need_room_for_copy() {
  local size
  size=$({ du --summarize --block-size=1 -- "$ETCD_DATA" || true; } | cut -f 1)
  need_free "$KUBERNETES_DIR" $((${size:-0} + (1 << 30))) \
    "kubeadm's copy of etcd's data. Free some, or delete what was set aside in $ETCD_DATA"
}

# The first control plane that comes here upgrades the cluster, the others only themselves. The
# caller makes sure that they come one at a time.
upgrade() {
  local -a flags
  local running cluster newest
  mapfile -t flags < <(kubeadm_flags)
  running=$(api_server_version)
  step "upgrade from $running to $KUBERNETES_VERSION"
  newest=$(printf '%s\n' "$running" "$KUBERNETES_VERSION" | sort -V | tail -n 1)
  [[ $newest == "$KUBERNETES_VERSION" ]] ||
    die "this control plane runs $running: Kubernetes cannot go back to $KUBERNETES_VERSION"
  wait_for_own_api
  remove_kubeadm_copies # of an interrupted upgrade: this control plane works without them
  need_room_for_copy
  bash "$HERE/install/install.sh" kubeadm || die "install.sh kubeadm failed"
  cluster=$(kube -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' |
    sed -n 's/^kubernetesVersion: *//p') || die "kubeadm's configuration in the cluster could not be read"
  if [[ $cluster == "$KUBERNETES_VERSION" ]]; then
    run kubeadm upgrade node ${flags[@]+"${flags[@]}"} || die "kubeadm upgrade node failed" kubelet.service
  else
    run kubeadm upgrade apply --yes ${flags[@]+"${flags[@]}"} "$KUBERNETES_VERSION" ||
      die "kubeadm upgrade apply failed" kubelet.service
  fi
  complete_certificates
  install_programs # restarts the kubelet
  wait_for_own_api
  remove_kubeadm_copies
}
