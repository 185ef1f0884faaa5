#!/usr/bin/env bash
# Upgrades this control plane. Sourced, never run.
# shellcheck disable=SC2154 # turn.sh sets obstacle, nodes.sh node_ready

UPGRADE=$STATE_DIR/upgrade # exists while the add-ons' turn is yet to come

needs_upgrade() {
  [[ -e $UPGRADE || $(api_server_version) != "$KUBERNETES_VERSION" ]]
}

api_server_version() {
  sed -n 's/^ *image: .*kube-apiserver:\([^@]*\).*$/\1/p' "$MANIFESTS/kube-apiserver.yaml"
}

# The first control plane that comes here upgrades the cluster, the others only themselves. The
# caller makes sure that they come one at a time.
#
# kubeadm would restart the static pods one by one, etcd under a running API server, which then answers
# nothing for half a minute, and a new kubelet would restart them all once more. So they change with
# the kubelet, all at once, and kubeadm does the rest: what the kubelet reads before, the add-ons after.
upgrade() {
  local -a flags how
  local running cluster newest after=addon config=$FOLDER/kubeadm-init.yaml
  mapfile -t flags < <(kubeadm_flags)
  running=$(api_server_version)
  step "upgrade from $running to $KUBERNETES_VERSION"
  newest=$(printf '%s\n' "$running" "$KUBERNETES_VERSION" | sort -V | tail -n 1)
  [[ $newest == "$KUBERNETES_VERSION" ]] ||
    die "this control plane runs $running: Kubernetes cannot go back to $KUBERNETES_VERSION"
  wait_for_own_api
  wait_for "${READY_TIMEOUT:-300}" "the Node $NODE_NAME to be Ready" own_node_is_ready ||
    die "the Node $NODE_NAME is not Ready, and its API server runs $running: run again when it is Ready" kubelet.service
  bash "$HERE/install/install.sh" kubeadm || die "install.sh kubeadm failed"
  require_images
  cluster=$(kube -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' |
    sed -n 's/^kubernetesVersion: *//p') || die "kubeadm's configuration in the cluster could not be read"
  if [[ $cluster == "$KUBERNETES_VERSION" ]]; then
    how=(node)
  else
    how=(apply --yes "$KUBERNETES_VERSION")
    after=upload-config,bootstrap-token,addon
    save_etcd
  fi
  step "what the kubelet reads"
  keep_manifests
  # Settings that the new kubelet does not know any more may go in the same update. Should this fail later,
  # and they are taken back, the next run stores the earlier ones again.
  rm -f -- "$STATE_DIR/kubeadm-init.sha256"
  run kubeadm init phase upload-config kubelet --config "$config" ||
    die "kubeadm could not store the kubelet's configuration in the cluster: the reason is above"
  # kubeadm would take the images from the registry that the cluster has stored, which may be gone.
  run kubeadm upgrade "${how[@]}" ${flags[@]+"${flags[@]}"} --ignore-preflight-errors=ImagePull --skip-phases="control-plane,$after" ||
    die "kubeadm upgrade ${how[0]} failed" kubelet.service
  wait_for "${READY_TIMEOUT:-300}" "the other control planes" others_are_well ||
    die "$obstacle: this control plane must not restart now"
  step "the kubelet and the static pods at $KUBERNETES_VERSION"
  bash "$HERE/install/install.sh" programs || die "install.sh programs failed"
  write_file "$UPGRADE" 0644 "$KUBERNETES_VERSION"
  try_manifests while_etcd_is_down write_new_set "$config"
  step "add-ons of $KUBERNETES_VERSION"
  wait_until_reported
  run kubeadm upgrade "${how[@]}" --skip-phases=preflight,control-plane ||
    die "kubeadm upgrade ${how[0]} failed" kubelet.service
  remove_kubeadm_copies
  rm -f -- "$UPGRADE"
}

# write_new_set CONFIG: for the kubelet that starts next, whose configuration is new as well.
write_new_set() {
  write_manifests "$1"
  forget_allocations changed
}

own_node_is_ready() {
  read_node "$NODE_NAME" && [[ $node_ready == True ]]
}

# An upgrade cannot be undone. The bucket may be a new one.
save_etcd() {
  configure_backups
  [[ -n ${BACKUP_HOURS:-} ]] || return 0
  step "a snapshot of etcd before the upgrade"
  systemctl start "$BACKUP_UNIT.service" || die "no snapshot could be taken before the upgrade" "$BACKUP_UNIT.service"
}

# kubeadm upgrades the add-ons when the pods of all API servers have the new version.
wait_until_reported() {
  wait_for "${RESTART_TIMEOUT:-240}" "the kubelet to report the new API server" api_server_is_reported ||
    die "the kubelet does not report the new API server" kubelet.service
}

api_server_is_reported() {
  local image
  image=$(kube -n kube-system get pod "kube-apiserver-$NODE_NAME" -o jsonpath='{.spec.containers[0].image}') || return
  [[ $image == *":$KUBERNETES_VERSION"* ]]
}

# The last control plane of an upgrade brings the add-ons. One that was replaced during the upgrade joins
# with the new version, and brings them, too.
catch_up_add_ons() {
  local image
  image=$(kube_proxy_image) || die "the version of kube-proxy could not be read"
  [[ -n $image && $image != *":$KUBERNETES_VERSION"* ]] || return 0
  step "add-ons of $KUBERNETES_VERSION"
  wait_until_reported
  run kubeadm upgrade node phase addon all || die "kubeadm could not upgrade the add-ons"
  configure_kube_proxy "$FOLDER/kubeadm-init.yaml"
}
