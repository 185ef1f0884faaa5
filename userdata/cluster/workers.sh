#!/usr/bin/env bash
# A worker joins, or is upgraded. Sourced, never run; after the other files of this folder.
# shellcheck disable=SC2154 # nodes.sh sets node_*

join_worker() {
  step "join"
  # The machine was configured a moment ago, so it answers.
  wait_for 120 "SSH to $NODE_NAME" worker_state || die "no SSH connection to $SSH_USER@$NODE_IP: $(complaint on_node true)"
  find_node
  if [[ $state != new && -n $node_exists ]]; then
    log "$NODE_NAME has joined already"
    return
  fi
  if [[ -n $node_exists && $state == new ]]; then
    if [[ -n ${PROVIDER_ID:-} && $node_provider == "$PROVIDER_ID" ]]; then
      finish_join
      return
    fi
    [[ $node_ready != True || -z $node_address || $node_address == "$NODE_IP" ]] ||
      die "a Node $NODE_NAME is Ready at $node_address, which is not this machine ($NODE_IP)"
    log "deleting the Node of an earlier machine of this name"
    delete_node || die "the stale Node $NODE_NAME could not be deleted"
  fi
  mint_token || die "no join token could be created"
  with_approval send_discovery || die "$NODE_NAME could not join: the reason is above"
  delete_token
}

send_discovery() {
  discovery | on_node_script join
}

# The Node is that of this very server, so its kubelet has its certificate, and only the end of its
# join was interrupted. Nothing that it says gets it another token.
finish_join() {
  log "the Node of this server exists, but the machine has not finished its join"
  on_node_script finish </dev/null ||
    die "$NODE_NAME says that it has not joined, but its Node belongs to this same server ($PROVIDER_ID): it gets no token, because someone else may be root there. If its machine was reset by hand, delete the Node, then run again: kubectl delete node $NODE_NAME"
}

# worker_state: sets `state`. Waiting helps while nothing answers, not after a refusal: sshd stops
# answering someone whom it has refused often.
worker_state() {
  state=$(SCRIPT_TIMEOUT=30 on_node_script state 2>"$FOLDER/refused" </dev/null) && return
  ! grep -qE 'Permission denied|Host key verification failed' "$FOLDER/refused" ||
    die "$SSH_USER@$NODE_IP refuses the login: $(tail -n 1 "$FOLDER/refused")"
  return 1
}

# A kubelet of another version is replaced on a drained node; `uncordon` ends that.
upgrade_worker() {
  local from
  find_node
  from=$node_version
  [[ $state == upgrading || (-n $from && $from != "$KUBERNETES_VERSION") ]] || return 0
  step "upgrade from $from to $KUBERNETES_VERSION"
  # An unhealthy node serves no one, and the upgrade may repair it.
  if node_is_healthy; then
    wait_for_reboots
    wait_for_other_nodes
  fi
  cordon
  evict_pods || die "$NODE_NAME is not Ready: repair or replace it, then run again"
  on_node_script upgrade </dev/null || die "$NODE_NAME could not be upgraded: the reason is above. It stays cordoned; run again when the cause is gone, or, if you take the change back: pulumi up --replace '**:Command::$NODE_NAME-join'"
  wait_for 120 "the kubelet of $NODE_NAME to report $KUBERNETES_VERSION" has_new_version || die_of_node
}

has_new_version() {
  read_node "$NODE_NAME" && [[ $node_version == "$KUBERNETES_VERSION" ]]
}
