#!/usr/bin/env bash
# SSH from the active gateway to the node's machine. Sourced, never run.

# on_node COMMAND...
on_node() {
  local key_types
  key_types=$(cut -d' ' -f2 "$FOLDER/known_hosts" | sort -u | paste -sd,)
  key_types=${key_types/ssh-rsa/rsa-sha2-512,rsa-sha2-256}
  chmod 0600 "$FOLDER/ssh_key"
  ssh -i "$FOLDER/ssh_key" -o BatchMode=yes -o IdentitiesOnly=yes \
    -o UserKnownHostsFile="$FOLDER/known_hosts" -o GlobalKnownHostsFile=/dev/null \
    -o StrictHostKeyChecking=yes -o HostKeyAlgorithms="$key_types" -o LogLevel=ERROR \
    -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=6 \
    "$SSH_USER@$NODE_IP" "$@"
}

# on_node_script VERB...: the script of its role that is installed there.
on_node_script() {
  on_node sudo -n "$SCRIPTS_DIR/$ROLE/$ROLE.sh" "$@"
}
