#!/usr/bin/env bash
# The machine as a node: its programs, and the state that kubeadm and the kubelet have left. Sourced,
# never run.
#
# `attempt` says that kubeadm was started, `member` that it finished: with the first and without
# the second, the last run was interrupted.

install_programs() {
  step "packages and programs"
  bash "$HERE/install/install.sh" all || die "install.sh all failed" containerd.service
}

is_member() {
  [[ -e $STATE_DIR/member && -e $KUBERNETES_DIR/kubelet.conf ]]
}

begin_attempt() {
  # To kubeadm a warning among others; the kubelet does not start, which kubeadm reports minutes later.
  (($({ cat "$ROOT/proc/swaps" 2>/dev/null || true; } | wc -l) < 2)) ||
    log "swap is on: without failSwapOn: false in kubelet.extraConfig, the kubelet does not start (swapoff -a, and remove it from /etc/fstab)"
  mkdir -p -- "$STATE_DIR"
  rm -f -- "$STATE_DIR/member"
  write_file "$STATE_DIR/attempt" 0644 "$1"
  sync -- "$STATE_DIR/attempt" "$STATE_DIR"
}

end_attempt() {
  # After a power cut, what has just been written would be empty, and `member` would vouch for it.
  sync --file-system -- "$KUBERNETES_DIR"
  write_file "$STATE_DIR/member" 0644 "$CLUSTER_NAME"
  rm -f -- "$STATE_DIR/attempt"
}

# attempt: `init` or `join`, if one was interrupted.
attempt() {
  [[ ! -e $STATE_DIR/attempt ]] || cat "$STATE_DIR/attempt"
}

was_interrupted() {
  [[ ! -e $STATE_DIR/member ]] &&
    [[ -e $STATE_DIR/attempt || -e $KUBERNETES_DIR/kubelet.conf ||
      -e $KUBERNETES_DIR/bootstrap-kubelet.conf ]]
}

reset_node() {
  step "kubeadm reset"
  if command -v kubeadm >/dev/null; then
    COMMAND_TIMEOUT=${RESET_TIMEOUT:-240} run kubeadm reset --force --cleanup-tmp-dir \
      ${RESET_SKIP:+--skip-phases="$RESET_SKIP"} ||
      die "kubeadm reset failed" containerd.service
  fi
  rm -rf -- "$ROOT"/etc/cni/net.d/* "$STATE_DIR/manifests"
  rm -f -- "$STATE_DIR"/{attempt,member,served,kubeadm-init.sha256,kube-proxy,kubelet-config,renewed,renewing,upgrade}
}

# A machine that belongs to another cluster is left alone for as long as that cluster lives.
refuse_foreign_cluster() {
  local pki=$KUBERNETES_DIR/pki/ca.crt conf=$KUBERNETES_DIR/kubelet.conf
  [[ -e $conf && -e $pki ]] && ! share_certificate "$pki" "$FOLDER/ca.crt" || return 0
  # Its API may only pause: without an answer this machine is wiped.
  if wait_for "${OWN_API_TIMEOUT:-120}" "the API of the cluster of which this machine is a node" foreign_api_answers "$conf"; then
    die "this machine is a node of another cluster that is alive; take it out there first: kubectl drain and delete node, then $SCRIPTS_DIR/${ROLE:-worker}/${ROLE:-worker}.sh reset here"
  fi
  log "this machine was a node of a cluster that no longer answers"
  reset_node
}

foreign_api_answers() {
  local said
  said=$(timeout 20 kubectl --kubeconfig "$1" --request-timeout=10s get --raw /readyz 2>&1) && return
  # A refusal is an answer: the certificate of this machine may have expired.
  [[ $said == *"Error from server"* || $said == *"logged in to the server"* || $said == *x509* ]]
}

kubeadm_flags() {
  [[ -z ${IGNORE_PREFLIGHT_ERRORS:-} ]] ||
    printf -- '--ignore-preflight-errors=%s\n' "$IGNORE_PREFLIGHT_ERRORS"
}

kubelet_version() {
  local text
  text=$(kubelet --version 2>/dev/null) || return 0
  printf '%s' "${text#Kubernetes }"
}

# The kubelet's settings are the cluster's; a change of them reaches a node that has joined here.
refresh_kubelet_config() {
  local config=$ROOT/var/lib/kubelet/config.yaml before pending=$STATE_DIR/kubelet-config
  step "kubelet configuration"
  before=$(sha256sum <"$config")
  [[ ! -e $pending ]] || before='' # an earlier run was interrupted: it may not have restarted the kubelet
  : >"$pending"
  # kubeadm itself asks for a third of a second, and the API server may be restarting.
  WAIT_PAUSE=${WAIT_PAUSE:-3} wait_for "${RESTART_TIMEOUT:-180}" "the cluster's kubelet configuration" \
    run kubeadm upgrade node phase kubelet-config ||
    die "the kubelet's configuration could not be read from the cluster" kubelet.service
  remove_kubeadm_copies
  hide_kubelet_config
  if [[ $(sha256sum <"$config") != "$before" ]]; then
    forget_allocations changed
    restart_kubelet
  else
    forget_allocations
    if systemctl is-active --quiet kubelet.service; then wait_for_kubelet; else restart_kubelet; fi
  fi
  rm -f -- "$pending"
}

# forget_allocations [changed]: the kubelet does not start with the state of another policy, nor, by the
# memory manager's Static, with that of other reservations, which a changed configuration may have. A pod
# keeps the processors and the memory that it has; the next one gets its share by the new settings.
forget_allocations() {
  local manager state policy
  for manager in cpu memory; do
    state=$ROOT/var/lib/kubelet/${manager}_manager_state
    policy=$(sed -n "s/^${manager}ManagerPolicy: *//p" "$ROOT/var/lib/kubelet/config.yaml")
    policy=${policy:-none}
    [[ -e $state ]] || continue
    # The memory manager's None has a capital letter.
    [[ $manager/$policy/${1:-} == memory/Static/changed ]] ||
      ! grep -qi "\"policyName\":\"$policy\"" "$state" || continue
    log "the $manager manager begins again, by the policy $policy"
    at_exit 'systemctl start kubelet.service'
    systemctl stop kubelet.service || die "the kubelet does not stop" kubelet.service
    rm -f -- "$state"
  done
}

# Its pods continue.
restart_kubelet() {
  step "restart the kubelet"
  systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  wait_for_kubelet
}

wait_for_kubelet() {
  wait_for 60 "the kubelet" kubelet_healthy || die "the kubelet is not healthy" kubelet.service
}

# kubeadm keeps copies of what each run changes.
remove_kubeadm_copies() {
  rm -rf -- "$KUBERNETES_DIR"/tmp/kubeadm-*
}

# kubeadm lets everyone read the kubelet's configuration.
hide_kubelet_config() {
  chmod 0600 -- "$ROOT/var/lib/kubelet/config.yaml"
}

# container_of POD [STATE]: the id of the running container of a static pod, or those in another state,
# the newest first.
container_of() {
  crictl ps --quiet --state "${2:-Running}" --label io.kubernetes.pod.namespace=kube-system --name "^$1\$"
}

kubelet_healthy() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 2 http://127.0.0.1:10248/healthz
}
