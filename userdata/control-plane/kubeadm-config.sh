#!/usr/bin/env bash
# kubeadm's configuration: what it once generated is generated again when the configuration changed.
# Sourced, never run.

STORED_SUM=openstack-kubernetes-configuration # annotation of the ConfigMap kubeadm-config

# The manifests that worked, what the API server reads and the kubelet that did, while new ones are tried:
# the next run, which may bring better ones, needs the API server.
LAST_MANIFESTS=$STATE_DIR/manifests
MANIFEST_FILES=("${STATIC_PODS[@]/#/$MANIFESTS/}")
MANIFEST_FILES=("${MANIFEST_FILES[@]/%/.yaml}")
KUBELET=$ROOT/usr/bin/kubelet
KUBELET_FILES=("$KUBELET" "$ROOT"/var/lib/kubelet/{config.yaml,instance-config.yaml,kubeadm-flags.env})

# The kubelet restarts the static pods whose manifests differ, no others.
configure_kubeadm() {
  local config=$FOLDER/kubeadm-init.yaml
  [[ $(configuration_sum) != "$(cat "$STATE_DIR/kubeadm-init.sha256" 2>/dev/null)" ]] || return 0
  step "kubeadm's configuration has changed"
  # Should this fail half-way, whatever is set next is a change, also what was in force before.
  rm -f -- "$STATE_DIR/kubeadm-init.sha256"
  require_images
  reissue_api_server_certificate "$config"
  try_manifests write_manifests "$config"
  # Not before it has worked here: control planes that join start with what is stored. A new kubelet
  # may be restarting the API server at this moment, which refuses all at first.
  wait_for "${RESTART_TIMEOUT:-180}" "the cluster to store kubeadm's configuration" \
    run kubeadm init phase upload-config all --config "$config" ||
    die "kubeadm could not store its configuration in the cluster: the reason is above"
  configure_kube_proxy "$config"
  remember_configuration
}

# try_manifests COMMAND...: it writes new ones, and if their pods are not healthy, the last ones come back.
try_manifests() {
  local pod
  local -A manifest container
  for pod in "${STATIC_PODS[@]}"; do
    manifest[$pod]=$(sha256sum <"$MANIFESTS/$pod.yaml")
    container[$pod]=$(container_of "$pod")
  done
  keep_manifests
  "$@"
  for pod in "${STATIC_PODS[@]}"; do
    [[ $(sha256sum <"$MANIFESTS/$pod.yaml") != "${manifest[$pod]}" ]] || container[$pod]=''
    wait_for_pod "$pod" "${container[$pod]}"
  done
  rm -rf -- "$LAST_MANIFESTS"
}

# write_manifests CONFIG
write_manifests() {
  run kubeadm init phase control-plane all --config "$1" || die "kubeadm could not write the manifests"
  write_etcd_manifest "$1"
}

# wait_for_pod NAME CONTAINER: until the static pod is healthy, in another container than this. One that
# does not know an argument ends at once, every time: the last manifests need not wait for the limit.
# It is asked no second time: a new kubelet restarts a healthy one, too.
wait_for_pod() {
  local ended='' ends=0
  if ! WAIT_PAUSE=${WAIT_PAUSE:-1} wait_for "${RESTART_TIMEOUT:-240}" "$1 with its new configuration" \
    is_healthy_or_keeps_ending "$@" || keeps_ending; then
    die "$1 is not healthy with its new configuration$(last_words_of "$1")" kubelet.service
  fi
}

# is_healthy_or_keeps_ending NAME CONTAINER: counts in `ends` the other containers that have ended.
is_healthy_or_keeps_ending() {
  local id
  ! is_healthy "$@" || return 0
  id=$(last_ended_of "$1")
  [[ -z $id || $id == "$2" || $id == "$ended" ]] || { ended=$id && ((++ends)); }
  keeps_ending
}

keeps_ending() {
  ((ends >= 3))
}

is_healthy() {
  [[ -z $2 ]] || runs_in_another_container "$@" || return
  case $1 in
    kube-apiserver) own_api_is_ready ;;
    kube-controller-manager) answers_healthz "$CONTROLLER_MANAGER_METRICS_PORT" ;;
    kube-scheduler) answers_healthz "$SCHEDULER_METRICS_PORT" ;;
  esac
}

# last_ended_of POD: the id of the container of a static pod that was the last one to end.
last_ended_of() {
  local ids
  ids=$(container_of "$1" Exited)
  printf '%s' "${ids%%$'\n'*}"
}

# last_words_of POD: what its last container said, if one has ended.
last_words_of() {
  local id
  id=$(last_ended_of "$1")
  [[ -z $id ]] || printf '; %s last said: %s' "$1" "$(complaint crictl logs --tail 3 "$id")"
}

# answers_healthz PORT
answers_healthz() {
  curl --silent --fail --insecure --output /dev/null --noproxy '*' --max-time 2 \
    "https://127.0.0.1:$1/healthz"
}

# keep_manifests: until they are back or the new ones are in force, what was kept first is what worked.
keep_manifests() {
  local -a paths
  [[ ! -d $LAST_MANIFESTS ]] || return 0
  mapfile -t paths < <(existing "${MANIFEST_FILES[@]}" "${API_SERVER_FILES[@]}" "${KUBELET_FILES[@]}")
  rm -rf -- "$LAST_MANIFESTS.new"
  mkdir -- "$LAST_MANIFESTS.new"
  cp --preserve=mode -- "${paths[@]}" "$LAST_MANIFESTS.new"
  # A power cut would leave the copies empty.
  sync -- "$LAST_MANIFESTS.new"/* "$LAST_MANIFESTS.new"
  mv -- "$LAST_MANIFESTS.new" "$LAST_MANIFESTS"
  sync -- "$STATE_DIR"
  at_exit put_manifests_back
}

# put_manifests_back: if they were kept, which they are until the new ones are in force. If that fails,
# the next run does it.
put_manifests_back() {
  local path last
  [[ -d $LAST_MANIFESTS ]] || return 0
  log "this control plane continues with its last manifests"
  if ! cmp -s -- "$LAST_MANIFESTS/kubelet" "$KUBELET"; then
    # A kubelet of another version restarts them soon after its start, under whoever uses them by then.
    systemctl stop kubelet.service || return
    (stop_static_pods kube-apiserver etcd) || true # then the kubelet does it
  fi
  for path in "${MANIFEST_FILES[@]}" "${API_SERVER_FILES[@]}" "${KUBELET_FILES[@]}"; do
    last=$LAST_MANIFESTS/${path##*/}
    [[ ! -e $last ]] || copy_file "$last" "$path" "$(stat -c %a -- "$last")" || return
  done
  if changed "${KUBELET_FILES[@]}"; then
    forget_allocations changed
    systemctl restart kubelet.service || return
  fi
  rm -rf -- "$LAST_MANIFESTS"
}

# A run that was killed while it tried new manifests has not put the last ones back. After a reboot,
# `was_removed` has waited for the API server.
settle_manifests() {
  [[ -d $LAST_MANIFESTS ]] || return 0
  cmp -s -- {"$LAST_MANIFESTS","$MANIFESTS"}/kube-apiserver.yaml || ! own_api_is_ready || rm -rf -- "$LAST_MANIFESTS"
  put_manifests_back
}

# write_etcd_manifest CONFIG: etcd restarts only for what matters. kubeadm would write another
# initial cluster than the one that the member was started with, which no running member reads.
write_etcd_manifest() {
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

# A member with a larger database stops all writes in the cluster, also those of the way back.
refuse_small_etcd_quota() {
  local in_force size
  in_force=$(sed -n 's/.*--quota-backend-bytes=//p' "$MANIFESTS/etcd.yaml")
  # The way out of a full etcd is a higher one.
  ((ETCD_QUOTA_BYTES < ${in_force:-0})) || return 0
  size=$(stat -c %s -- "$ETCD_DATA/member/snap/db") || die "etcd's database cannot be found: is its volume mounted?"
  # A tenth for what is written until someone acts.
  ((10 * size <= 9 * ETCD_QUOTA_BYTES)) ||
    die "etcd's database has $size bytes, too many for etcd.quotaBackendBytes $ETCD_QUOTA_BYTES: set it to at least $((10 * size / 9 + 1)), then pulumi up: nothing was changed here"
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

stored_configuration_sum() {
  kube -n kube-system get configmap kubeadm-config -o "jsonpath={.metadata.annotations.$STORED_SUM}"
}

# What is in effect here, and what the cluster has stored for machines that join.
remember_configuration() {
  wait_for 60 "the API" mark_configuration || die "kubeadm's configuration in the cluster could not be annotated"
  write_file "$STATE_DIR/kubeadm-init.sha256" 0644 "$(configuration_sum)"
}

mark_configuration() {
  kube -n kube-system annotate configmap kubeadm-config --overwrite "$STORED_SUM=$(cluster_configuration_sum)" >/dev/null
}
