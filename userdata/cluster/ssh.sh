#!/usr/bin/env bash
# SSH from the active gateway to the node's machine. Sourced, never run.

# on_node COMMAND...: a short one.
on_node() {
  ssh_within "${ANSWER_TIMEOUT:-30}" "$@"
}

# on_node_script VERB...: the script of its role that is installed there, whose waits have limits of
# their own.
on_node_script() {
  ssh_within "${SCRIPT_TIMEOUT:-7200}" sudo -n "$SCRIPTS_DIR/$ROLE/$ROLE.sh" "$@"
}

# ssh_within SECONDS COMMAND...: a machine whose disk hangs lets ssh in, and then never ends.
ssh_within() {
  local seconds=$1 began=$SECONDS key_types status=0
  shift
  key_types=$(cut -d' ' -f2 "$FOLDER/known_hosts" | sort -u | paste -sd,)
  key_types=${key_types/ssh-rsa/rsa-sha2-512,rsa-sha2-256}
  chmod 0600 "$FOLDER/ssh_key"
  timeout --foreground --kill-after=5 "$seconds" ssh -i "$FOLDER/ssh_key" -o BatchMode=yes -o IdentitiesOnly=yes \
    -o UserKnownHostsFile="$FOLDER/known_hosts" -o GlobalKnownHostsFile=/dev/null \
    -o StrictHostKeyChecking=yes -o HostKeyAlgorithms="$key_types" -o LogLevel=ERROR \
    -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=6 \
    "$SSH_USER@$NODE_IP" "$@" || status=$?
  # The command may have a limit of its own.
  ((status != 124 && status != 137 || SECONDS - began < seconds)) || log "$NODE_IP did not answer within $seconds s: $*"
  return "$status"
}
