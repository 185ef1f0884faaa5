#!/usr/bin/env bash
# The cluster's side of a node's coming and going. Runs on the active gateway, as often as there
# are nodes and at the same time; nothing of its folder stays there.
#
#   gate.sh api     waits until the API answers
#   gate.sh ready   a worker joins (its machine is prepared); waits until the node is Ready,
#                   labels it, and uncordons it if a gate has cordoned it
#   gate.sh leave   checks that the cluster can spare the node, drains it, takes it out of etcd,
#                   resets its machine and deletes the Node

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/cluster.sh
source "$HERE/cluster/cluster.sh"

TARGET_IP=''
# Annotations of a Node.
LABELS_SET=openstack-kubernetes-labels
TAINTS_SET=openstack-kubernetes-taints

on_node() {
  local key_types
  key_types=$(cut -d' ' -f2 "$FOLDER/known_hosts" | sort -u | paste -sd,)
  key_types=${key_types/ssh-rsa/rsa-sha2-512,rsa-sha2-256}
  chmod 0600 "$FOLDER/ssh_key"
  ssh -i "$FOLDER/ssh_key" -p "${SSH_PORT:-22}" -o BatchMode=yes -o IdentitiesOnly=yes \
    -o UserKnownHostsFile="$FOLDER/known_hosts" -o GlobalKnownHostsFile=/dev/null \
    -o StrictHostKeyChecking=yes -o HostKeyAlgorithms="$key_types" -o LogLevel=ERROR \
    -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=6 \
    "$SSH_USER@$TARGET_IP" "$@"
}

# on_node_script VERB: the role's own script there.
on_node_script() {
  on_node sudo -n "/usr/local/lib/openstack-kubernetes/$ROLE/$ROLE.sh" "$1"
}

wait_for_api() {
  step "wait for the API"
  wait_for "${API_TIMEOUT:-600}" "the cluster's API" api_answers ||
    die "the API does not answer from this gateway: $(complaint kube get --raw /readyz)" haproxy.service
}

# --- ready ------------------------------------------------------------------------------------

ready() {
  wait_for_api
  if [[ $ROLE == worker ]]; then
    join_worker
    upgrade_worker
  fi
  step "wait for the node"
  wait_for "${READY_TIMEOUT:-600}" "$NODE_NAME to be Ready" node_is_ready || not_ready
  [[ $ROLE != control-plane ]] || wait_for_api_server
  label_node
  uncordon
  log "$NODE_NAME is in the cluster"
}

join_worker() {
  local state
  step "join"
  # A machine that was just prepared answers: its bootstrap ran a moment ago.
  wait_for 120 "SSH to $NODE_NAME" node_state || die "no SSH connection to $SSH_USER@$TARGET_IP: $(complaint on_node true)"
  state=$(<"$FOLDER/state")
  read_node "$NODE_NAME" || die "the cluster does not say whether a Node $NODE_NAME exists"
  if [[ $state == joined && -n $node_exists ]]; then
    log "$NODE_NAME has joined already"
    return
  fi
  if [[ -n $node_exists && $state == new ]]; then
    [[ $node_ready != True || -z $node_address || $node_address == "$TARGET_IP" ]] ||
      die "a Node $NODE_NAME is Ready at $node_address, which is not this machine ($TARGET_IP)"
    log "deleting the Node of an earlier machine of this name"
    kube delete node "$NODE_NAME" --ignore-not-found >/dev/null || die "the stale Node $NODE_NAME could not be deleted"
  fi
  mint_token || die "no join token could be made"
  discovery | on_node_script join || die "$NODE_NAME could not join: see the lines above"
  forget_token
}

# A kubelet of another version is replaced on a drained node; `uncordon` ends that.
upgrade_worker() {
  local from
  read_node "$NODE_NAME" || die "the Node $NODE_NAME could not be read"
  from=$node_version
  [[ -n $from && $from != "$KUBERNETES_VERSION" ]] || return 0
  step "upgrade from $from to $KUBERNETES_VERSION"
  # An ill one serves nobody: upgraded it may be well again.
  ! node_is_well || others_are_well
  cordon
  drain || die "$NODE_NAME is not Ready: bring it back or replace it, then run again"
  on_node_script upgrade </dev/null || die "$NODE_NAME could not be upgraded: see the lines above. It stays cordoned; run again when the cause is gone"
  wait_for 120 "the kubelet of $NODE_NAME to say that it is $KUBERNETES_VERSION" has_new_version || not_ready
}

has_new_version() {
  read_node "$NODE_NAME" && [[ $node_version == "$KUBERNETES_VERSION" ]]
}

# Waiting helps against silence, not against a refusal: sshd falls silent for who is refused often.
node_state() {
  on_node_script state >"$FOLDER/state" 2>"$FOLDER/refused" </dev/null && return
  ! grep -qE 'Permission denied|Host key verification failed' "$FOLDER/refused" ||
    die "$SSH_USER@$TARGET_IP refuses the login: $(tail -n 1 "$FOLDER/refused")"
  return 1
}

# Ready, or not Ready for the sole reason that the cluster has no network add-on yet: it comes
# after the control plane.
node_is_ready() {
  read_node "$NODE_NAME" && [[ -n $node_exists ]] && node_is_well
}

node_is_well() {
  [[ $node_ready != True ]] || return 0
  # Two complaints come as "[one, two]"; that about CSINode is there for a moment on each new node.
  local complaint=${node_message#[}
  complaint=${complaint%]}
  complaint=${complaint/, CSINode is not yet initialized/}
  [[ $node_ready == False && $complaint == *NetworkPluginNotReady* && $complaint != *", "* ]] || return 1
  no_network_addon || return 1
  log "${node_exists:-a node} waits for the network add-on, which is not installed yet: accepted"
}

# A network add-on is a DaemonSet that writes into the CNI folder of every node.
no_network_addon() {
  local paths
  paths=$(kube get daemonsets --all-namespaces -o jsonpath='{.items[*].spec.template.spec.volumes[*].hostPath.path}') || return
  [[ " $paths " != *" /etc/cni/net.d"* && " $paths " != *" /etc/cni "* ]]
}

not_ready() {
  local state
  log "conditions of $NODE_NAME:"
  kube get node "$NODE_NAME" -o jsonpath='{range .status.conditions[*]}{.type}{"="}{.status}{" "}{.message}{"\n"}{end}' 2>&1 |
    sed 's/^/  | /' >&2 || log "  (no Node of that name)"
  state=$(on_node systemctl is-active kubelet.service </dev/null 2>/dev/null) || true # says so when it is not
  log "unit kubelet.service on $NODE_NAME is ${state:-unknown}; the last lines of its journal:"
  on_node sudo -n journalctl --unit=kubelet --no-pager --output=cat --lines=15 </dev/null 2>&1 |
    sed 's/^/  | /' >&2 || log "  (no SSH connection)"
  die "$NODE_NAME did not become Ready"
}

wait_for_api_server() {
  step "wait for the API server of $NODE_NAME"
  wait_for 240 "the API server of $NODE_NAME" api_server_ready ||
    die "the API server at $TARGET_IP:6443 is not ready: $(complaint kube --server="https://$TARGET_IP:6443" get --raw '/readyz?verbose')"
}

api_server_ready() {
  kube --server="https://$TARGET_IP:6443" get --raw /readyz >/dev/null 2>&1
}

# The labels and taints of the configuration; those that it had before go. The Node remembers which
# are the configuration's: before they are set, so that a cut-off run forgets none.
label_node() {
  local text old_labels old_taints present each
  local -a labels taints label_keys=() taint_keys=() gone_labels=() gone_taints=()
  IFS=', ' read -ra labels <<<"${NODE_LABELS:-}"
  IFS=', ' read -ra taints <<<"${NODE_TAINTS:-}"
  text=$(kube get "node/$NODE_NAME" -o jsonpath="{.metadata.annotations.$LABELS_SET}{'|'}{.metadata.annotations.$TAINTS_SET}{'|'}{range .spec.taints[*]}{.key}{':'}{.effect}{' '}{end}") ||
    die "the labels and taints of $NODE_NAME could not be read"
  IFS='|' read -r old_labels old_taints present <<<"$text"
  for each in "${labels[@]}"; do
    label_keys+=("${each%%=*}")
  done
  for each in "${taints[@]}"; do
    taint_keys+=("${each%%=*}:${each##*:}")
  done
  for each in $old_labels; do
    [[ " ${label_keys[*]} " == *" $each "* ]] || gone_labels+=("$each")
  done
  for each in $old_taints; do
    # kubectl refuses to take away a taint that is not there.
    [[ " ${taint_keys[*]} " == *" $each "* || " $present " != *" $each "* ]] || gone_taints+=("$each")
  done
  remember_labels "${label_keys[*]} ${gone_labels[*]}" "${taint_keys[*]} ${gone_taints[*]}"
  if ((${#labels[@]} + ${#gone_labels[@]})); then
    step "labels"
    kube label node "$NODE_NAME" --overwrite "${labels[@]}" "${gone_labels[@]/%/-}" >/dev/null ||
      die "$NODE_NAME could not be labelled"
  fi
  if ((${#taints[@]} + ${#gone_taints[@]})); then
    step "taints"
    kube taint node "$NODE_NAME" --overwrite "${taints[@]}" "${gone_taints[@]/%/-}" >/dev/null ||
      die "$NODE_NAME could not be tainted"
  fi
  remember_labels "${label_keys[*]}" "${taint_keys[*]}"
}

# remember_labels LABELS TAINTS: what old_labels and old_taints say is what the Node has noted.
remember_labels() {
  local labels taints
  read -r labels <<<"$1"
  read -r taints <<<"$2"
  [[ $labels != "$old_labels" || $taints != "$old_taints" ]] || return 0
  kube annotate node "$NODE_NAME" --overwrite "$LABELS_SET=$labels" "$TAINTS_SET=$taints" >/dev/null ||
    die "$NODE_NAME could not be annotated"
  old_labels=$labels old_taints=$taints
}

# What a gate has cordoned, this one or one that was cut off.
uncordon() {
  if [[ -n $node_marked ]]; then
    step "uncordon"
    set_cordon null null || die "$NODE_NAME could not be uncordoned"
  elif [[ $node_cordoned == true ]]; then
    log "$NODE_NAME stays cordoned: a person has done that, or kured, or a gate of an older version; when it may have pods again: kubectl uncordon $NODE_NAME"
  fi
}

# set_cordon MARK UNSCHEDULABLE: both at once, so that a cut cannot come between them.
set_cordon() {
  kube patch node "$NODE_NAME" --type=merge \
    --patch="{\"metadata\":{\"annotations\":{\"$CORDONED\":$1}},\"spec\":{\"unschedulable\":$2}}" >/dev/null
}

# --- leave ------------------------------------------------------------------------------------

leave() {
  API_TIMEOUT=${API_TIMEOUT:-120}
  wait_for_api
  step "check that the cluster can spare $NODE_NAME"
  read_node "$NODE_NAME" || die "the cluster does not say whether a Node $NODE_NAME exists"
  local exists=$node_exists alive=false
  if [[ -n ${PROVIDER_ID:-} && -n $node_provider && $node_provider != "$PROVIDER_ID" ]]; then
    log "the Node $NODE_NAME is another machine's by now ($node_provider): nothing to do"
    return
  fi
  [[ -z $exists ]] || ! node_is_well || alive=true
  [[ $alive == false ]] || others_are_well
  [[ $ROLE != control-plane ]] || quorum_survives
  if [[ -z $exists ]]; then
    log "there is no Node $NODE_NAME: nothing to drain"
  else
    cordon
    drain || {
      abandon
      alive=false
    }
    wait_for_volumes "$alive"
  fi
  if [[ $ROLE == control-plane ]]; then
    hand_over_leadership
    step "remove the etcd member"
    NODE_IP=$TARGET_IP
    remove_etcd_member || die "the etcd member of $NODE_NAME could not be removed"
  fi
  reset_machine
  step "delete the Node"
  kube delete node "$NODE_NAME" --ignore-not-found >/dev/null || die "the Node $NODE_NAME could not be deleted"
  log "$NODE_NAME has left the cluster"
}

# A healthy node does not go while another one is ill; an ill one may always go. Others may be
# coming up or leaving at this moment, in this pool or beside it: they are waited for.
others_are_well() {
  wait_for "${OTHERS_TIMEOUT:-300}" "the other nodes to be Ready" no_other_is_ill ||
    die "not Ready: ${ill[*]}. Taking $NODE_NAME away now could cost the cluster more than it has to spare: bring them back, or remove them first"
}

no_other_is_ill() {
  local names name
  # The API may be away for a moment, too.
  ill=("nobody knows which nodes, for they cannot be listed")
  names=$(kube get nodes -o jsonpath='{.items[*].metadata.name}') || return
  ill=()
  for name in $names; do
    [[ $name != "$NODE_NAME" ]] || continue
    read_node "$name" || {
      ill=("$name, or it cannot be read")
      return 1
    }
    [[ -z $node_exists ]] || node_is_well || ill+=("$name")
  done
  ((!${#ill[@]}))
}

# What is left of etcd must keep its majority, and be well.
quorum_survives() {
  local members health voters=0 well=0 id status name peers clients learner own=''
  members=$(etcdctl_elsewhere member list) ||
    die "$NODE_NAME cannot leave: no other control plane's etcd answers, so it may be the last one"
  health=$(etcdctl_elsewhere endpoint health --cluster --command-timeout=5s 2>&1) || true # says which are ill
  while IFS=, read -r id status name peers clients learner; do
    [[ -n $id && ${learner# } != true ]] || continue
    if [[ ${name# } == "$NODE_NAME" || $peers == *"//$TARGET_IP:2380"* ]]; then
      own=$id
      continue
    fi
    voters=$((voters + 1))
    [[ $health != *"${clients# } is healthy"* ]] || well=$((well + 1))
  done <<<"$members"
  if [[ -z $own ]]; then
    log "$NODE_NAME is not in etcd"
  elif ((voters == 0 || well < voters / 2 + 1)); then
    die "$NODE_NAME cannot leave: of the $voters other etcd members $well are healthy, $((voters / 2 + 1)) are needed. Bring the ill ones back first"
  else
    log "etcd keeps $voters members without $NODE_NAME, $well of them healthy"
  fi
}

# Without a leader nothing can be read or written for an election timeout, which is seconds.
hand_over_leadership() {
  local members id status name peers clients learner
  leads && members=$(etcdctl_elsewhere member list) || return 0
  step "hand over etcd's leadership"
  while IFS=, read -r id status name peers clients learner; do
    [[ ${status# } == started && ${learner# } != true && $clients != *"//$TARGET_IP:2379"* ]] || continue
    if etcdctl_elsewhere --endpoints="https://$TARGET_IP:2379" move-leader "$id" >/dev/null; then
      log "${name# } leads etcd now"
      return
    fi
  done <<<"$members"
  log "no other member took the leadership: etcd elects a leader when this one is gone"
}

# leads: does the node that leaves lead etcd? The first of the true and false in its line says so.
leads() {
  local line
  line=$(etcdctl_elsewhere endpoint status --cluster --command-timeout=5s 2>/dev/null | grep -F "//$TARGET_IP:2379,") || return
  [[ $line =~ ,\ (true|false), && ${BASH_REMATCH[1]} == true ]]
}

cordon() {
  step "cordon"
  read_node "$NODE_NAME" || die "the Node $NODE_NAME could not be read"
  [[ $node_cordoned != true ]] || return 0
  set_cordon '"true"' true || die "$NODE_NAME could not be cordoned"
}

# drain: status 1 when the node is dead or dies meanwhile; its kubelet would end no pod.
drain() {
  local start=$SECONDS limit=${DRAIN_TIMEOUT:-600} quick=0 turn
  step "drain"
  until ((SECONDS - start >= limit)); do
    read_node "$NODE_NAME" || die "the Node $NODE_NAME could not be read"
    [[ $node_ready != Unknown ]] || return 1
    turn=$SECONDS
    # In turns of a minute: a machine may die while it is drained.
    ! run kubectl --kubeconfig "$FOLDER/kubeconfig" drain "$NODE_NAME" --ignore-daemonsets \
      --delete-emptydir-data --timeout=60s || return 0
    # What fails at once will fail again: pods that nothing would start elsewhere, for example.
    ((SECONDS - turn > 10)) || quick=$((quick + 1))
    ((quick < 3)) || break
    sleep 3
  done
  die "$NODE_NAME could not be drained: see why above. It stays cordoned, nothing was removed; run again when the cause is gone"
}

# The kubelet is silent, so a drain would wait for ever: the machine is stopped as far as it can
# be reached, then the cluster is told that it is gone.
abandon() {
  step "give up a dead node"
  reset_machine
  log "$NODE_NAME is not Ready: its pods are deleted by force"
  kube taint node "$NODE_NAME" --overwrite node.kubernetes.io/out-of-service=nodeshutdown:NoExecute >/dev/null ||
    die "$NODE_NAME could not be tainted"
  wait_for 90 "the pods of $NODE_NAME to go" pods_are_gone || force_pods
}

# pods_are_gone: none left but mirror pods and those of DaemonSets.
pods_are_gone() {
  local left
  left=$(pods_left) && [[ -z $left ]]
}

pods_left() {
  kube get pods --all-namespaces --field-selector "spec.nodeName=$NODE_NAME" \
    -o jsonpath='{range .items[*]}{.metadata.namespace}{" "}{.metadata.name}{" "}{.metadata.ownerReferences[0].kind}{"\n"}{end}' |
    sed '/ DaemonSet$/d; / Node$/d'
}

force_pods() {
  local left namespace name
  left=$(pods_left) || die "the pods of $NODE_NAME could not be listed"
  while read -r namespace name _; do
    [[ -n $name ]] || continue
    log "deleting $namespace/$name by force"
    kube -n "$namespace" delete pod "$name" --grace-period=0 --force --wait=false --ignore-not-found >/dev/null 2>&1 ||
      die "$namespace/$name could not be deleted"
  done <<<"$left"
}

wait_for_volumes() {
  step "wait for volumes to detach"
  wait_for "${DETACH_TIMEOUT:-300}" "the volumes of $NODE_NAME to detach" volumes_are_gone && return
  [[ $1 != true ]] || die "volumes are still attached to $NODE_NAME: $(complaint volumes_left)"
  log "volumes are still noted as attached to the dead $NODE_NAME; deleting its server detaches them: $(complaint volumes_left)"
}

volumes_are_gone() {
  local left
  left=$(volumes_left) && [[ -z $left ]]
}

volumes_left() {
  local all
  all=$(kube get volumeattachments.storage.k8s.io -o jsonpath='{range .items[*]}{.spec.nodeName}{" "}{.spec.source.persistentVolumeName}{"\n"}{end}') || return
  sed -n "s/^$NODE_NAME //p" <<<"$all"
}

machine_reset=false
reset_machine() {
  [[ $machine_reset == false ]] || return 0
  step "kubeadm reset on $NODE_NAME"
  machine_reset=true
  if [[ -n ${PROVIDER_ID:-} ]] && ! is_same_machine; then
    log "the machine at $TARGET_IP cannot be reached or is another one by now: not reset"
  elif ! on_node true </dev/null 2>/dev/null; then
    log "no SSH connection to $TARGET_IP: the machine is taken for dead and not reset"
  elif ! on_node test -e "/usr/local/lib/openstack-kubernetes/$ROLE/$ROLE.sh" </dev/null; then
    log "the machine was never prepared: nothing to reset"
  else
    on_node_script reset </dev/null || die "kubeadm reset failed on $NODE_NAME: see the lines above"
  fi
}

# A new machine has the address and the host key of the one before it, but not its id.
is_same_machine() {
  local id
  id=$(on_node cat /var/lib/cloud/data/instance-id </dev/null 2>/dev/null) || return
  [[ ${PROVIDER_ID##*/} == "$id" ]]
}

case $VERB in
  api)
    load_env NODE_NAME
    wait_for_api
    ;;
  ready | leave)
    load_env NODE_NAME NODE_IP ROLE API_NAME SSH_USER KUBERNETES_VERSION
    TARGET_IP=${TARGET_IP:-$NODE_IP}
    "$VERB"
    ;;
  *) die "usage: gate.sh api|ready|leave" ;;
esac
