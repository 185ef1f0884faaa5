#!/usr/bin/env bash
# host-key.sh install: puts the machine's real SSH host key in place.
#
# The connection that runs this came in over the one-time key (ED25519) of user_data. That key stays
# alongside the real one (ECDSA), so that an interrupted run can be repeated; the first `configure`,
# which comes in over the real key, removes it.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"

install_key() {
  local ssh=$ROOT/etc/ssh
  step "install the SSH host key"
  [[ -s $FOLDER/host_key && -s $FOLDER/host_key.pub ]] ||
    die "host_key and host_key.pub are missing in $FOLDER"
  mkdir -p -- "$STATE_DIR"
  copy_file "$FOLDER/host_key" "$ssh/ssh_host_ecdsa_key" 0600
  copy_file "$FOLDER/host_key.pub" "$ssh/ssh_host_ecdsa_key.pub" 0644
  [[ ! -e $ssh/ssh_host_ed25519_key ]] || : >"$STATE_DIR/one-time-host-key"
  changed "$ssh/ssh_host_ecdsa_key" || {
    log "the host key is in place already"
    return 0
  }
  reload_sshd
}

require_root
load_env NODE_NAME
lock
case $VERB in
  install) install_key ;;
  *) die "usage: host-key.sh install" ;;
esac
