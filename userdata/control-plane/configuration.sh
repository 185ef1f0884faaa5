#!/usr/bin/env bash
# What kubeadm made once, made again: manifests, certificates and kube-proxy, when their
# configuration has changed or their time is over. Sourced, never run.

STATIC_PODS=(etcd kube-apiserver kube-controller-manager kube-scheduler)
RENEW_DAYS=45
STORED_SUM=openstack-kubernetes-configuration # annotation of the ConfigMap kubeadm-config

# What kubeadm init made out of its configuration is made again when that changed. The kubelet
# restarts the static pods whose manifests differ, no others.
converge_configuration() {
  local config=$FOLDER/kubeadm-init.yaml pod
  local -A manifest container
  [[ $(configuration_sum) != "$(cat "$STATE_DIR/kubeadm-init.sha256" 2>/dev/null)" ]] || return 0
  step "kubeadm's configuration has changed"
  for pod in "${STATIC_PODS[@]}"; do
    manifest[$pod]=$(sha256sum <"$MANIFESTS/$pod.yaml")
    container[$pod]=$(container_of "$pod")
  done
  run kubeadm init phase upload-config all --config "$config" || die "kubeadm could not store its configuration"
  renew_api_server_certificate "$config"
  run kubeadm init phase control-plane all --config "$config" || die "kubeadm could not write the manifests"
  etcd_manifest "$config"
  for pod in "${STATIC_PODS[@]}"; do
    if [[ $(sha256sum <"$MANIFESTS/$pod.yaml") != "${manifest[$pod]}" ]]; then
      wait_for "${RESTART_TIMEOUT:-180}" "$pod to start anew" other_container "$pod" "${container[$pod]}" ||
        die "$pod does not start with its new configuration" kubelet.service
    fi
  done
  wait_for_own_api
  converge_kube_proxy "$config"
  remember_configuration
}

# Only its settings: the version of its pods is the business of the upgrade, which changes them with
# the last control plane. That one comes here, too.
converge_kube_proxy() {
  local new pending=$STATE_DIR/kube-proxy
  step "kube-proxy"
  new=$(kubeadm init phase addon kube-proxy --config "$1" --print-manifest |
    awk 'BEGIN { RS = ORS = "---\n" } /(^|\n)kind: ConfigMap\n/') || die "kubeadm could not write kube-proxy's configuration"
  # A new kubelet may just be starting the API server anew.
  wait_for "${RESTART_TIMEOUT:-180}" "the API to take kube-proxy's configuration" store_kube_proxy "$new" ||
    die "kube-proxy's configuration could not be stored: $(complaint kube -n kube-system get configmap kube-proxy)"
  [[ -e $pending ]] || return 0
  wait_for "${RESTART_TIMEOUT:-180}" "kube-proxy to start anew" kube_proxy_starts ||
    die "kube-proxy does not start with its new configuration: kubectl -n kube-system get pods -l k8s-app=kube-proxy says where"
  rm -f -- "$pending"
}

# store_kube_proxy CONFIGMAP: the file `pending` says that its pods have yet to start anew.
store_kube_proxy() {
  local image before after
  image=$(kube -n kube-system get daemonset kube-proxy --ignore-not-found -o jsonpath='{.spec.template.spec.containers[0].image}') || return
  # Without one a network add-on does its work, and somebody took it away.
  [[ $image == *":$KUBERNETES_VERSION"* ]] || return 0
  before=$(kube -n kube-system get configmap kube-proxy -o jsonpath='{.data}') || return
  after=$(kube replace --dry-run=server -o jsonpath='{.data}' -f - <<<"$1") || return
  [[ $after != "$before" || -e $pending ]] || return 0
  : >"$pending"
  kube replace -f - >/dev/null <<<"$1" || return
  kube -n kube-system rollout restart daemonset kube-proxy >/dev/null
}

# Its pods start one after the other: when the second one does, the first one is well.
kube_proxy_starts() {
  local text wanted seen updated ill
  text=$(kube -n kube-system get daemonset kube-proxy -o jsonpath='{.metadata.generation}{"|"}{.status.observedGeneration}{"|"}{.status.updatedNumberScheduled}{"|"}{.status.numberUnavailable}') || return
  IFS='|' read -r wanted seen updated ill <<<"$text"
  [[ $seen == "$wanted" ]] && ((${updated:-0} > 1 || (${updated:-0} == 1 && ${ill:-0} == 0)))
}

# kubeadm keeps a certificate that exists as it is, but the names in it may have changed. The API
# server reads the new one by itself.
renew_api_server_certificate() {
  rm -f -- "$PKI"/apiserver.{crt,key}.old
  mv -f -- "$PKI/apiserver.crt" "$PKI/apiserver.crt.old"
  mv -f -- "$PKI/apiserver.key" "$PKI/apiserver.key.old"
  run kubeadm init phase certs apiserver --config "$1" || {
    mv -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.crt"
    mv -f -- "$PKI/apiserver.key.old" "$PKI/apiserver.key"
    die "kubeadm could not make the API server's certificate"
  }
  rm -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.key.old"
}

# A run that was cut off meanwhile left none; kubeadm writes the certificate after its key.
restore_api_server_certificate() {
  [[ ! -e $PKI/apiserver.crt && -e $PKI/apiserver.crt.old ]] || return 0
  log "an earlier run was cut off while it renewed the API server's certificate"
  [[ ! -e $PKI/apiserver.key.old ]] || mv -f -- "$PKI/apiserver.key.old" "$PKI/apiserver.key"
  mv -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.crt"
}

# etcd is restarted only for what matters: kubeadm would write another initial cluster than the
# member was started with, which no running member looks at.
etcd_manifest() {
  local dry=$RUN_DIR/etcd initial manifest
  mkdir -p -- "$dry"
  at_exit "rm -rf -- '$dry'"
  run env KUBEADM_INIT_DRYRUN_DIR="$dry" kubeadm init phase etcd local --config "$1" --dry-run ||
    die "kubeadm could not write etcd's manifest"
  initial=$(grep -e '--initial-cluster' "$MANIFESTS/etcd.yaml")
  manifest=$(
    while IFS= read -r line; do
      case $line in
        *--initial-cluster-state=*) ;;
        *--initial-cluster=*) printf '%s\n' "$initial" ;;
        *) printf '%s\n' "$line" ;;
      esac
    done <"$dry/etcd.yaml"
  )
  [[ -n $manifest ]] || die "kubeadm wrote no manifest of etcd to $dry"
  write_file "$MANIFESTS/etcd.yaml" 0600 "$manifest"
}

other_container() {
  local now
  now=$(container_of "$1")
  [[ -n $now && $now != "$2" ]]
}

configuration_sum() {
  local sum
  sum=$(sha256sum <"$FOLDER/kubeadm-init.yaml")
  printf '%s' "${sum%% *}"
}

# The part of the configuration that is the same on every control plane.
cluster_configuration_sum() {
  local sum
  sum=$(awk 'BEGIN { RS = ORS = "---\n" } !/kind: InitConfiguration/' "$FOLDER/kubeadm-init.yaml" | sha256sum)
  printf '%s' "${sum%% *}"
}

# What is in force here, and what the cluster has stored for those that join it.
remember_configuration() {
  wait_for 60 "the API" mark_configuration || die "kubeadm's configuration in the cluster could not be marked"
  write_file "$STATE_DIR/kubeadm-init.sha256" 0644 "$(configuration_sum)"
}

mark_configuration() {
  kube -n kube-system annotate configmap kubeadm-config --overwrite "$STORED_SUM=$(cluster_configuration_sum)" >/dev/null
}

# kubeadm's certificates live for a year; upgrades renew them too.
renew_certificates() {
  local file pod pending=$STATE_DIR/renewed
  step "certificates"
  for file in "$PKI"/*.crt "$PKI"/etcd/*.crt; do
    [[ $file != */ca.crt && $file != */front-proxy-ca.crt ]] || continue
    openssl x509 -noout -checkend $((RENEW_DAYS * 86400)) -in "$file" >/dev/null && continue
    log "${file##*/} ends within $RENEW_DAYS days: renewing all"
    : >"$pending"
    run kubeadm certs renew all || die "kubeadm could not renew the certificates"
    break
  done
  # Also when an earlier run was cut off before all of them had started anew.
  [[ -e $pending ]] || return 0
  for pod in "${STATIC_PODS[@]}"; do
    restart_static_pod "$pod"
  done
  rm -f -- "$pending"
}

# restart_static_pod NAME: the kubelet starts its container again.
restart_static_pod() {
  local id
  step "restart $1"
  id=$(container_of "$1") || die "crictl does not answer" containerd.service
  [[ -z $id ]] || run crictl stop --timeout 30 "$id" || die "$1 does not stop"
  wait_for "${RESTART_TIMEOUT:-180}" "$1 to start anew" other_container "$1" "$id" || die "$1 does not come back" kubelet.service
  wait_for_own_api
}
