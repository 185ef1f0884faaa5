#!/usr/bin/env bash
# host-key.sh install|rotate: puts the machine's real SSH host keys in place, and removes others.
#
# The connection that runs `install` came in over the one-time key (ED25519) of user_data. That key
# stays alongside the real one (ECDSA), so that an interrupted run can be repeated; the first
# `configure`, which comes in over the real key, removes it. `rotate` is for later generations: the
# folder has the key of the one before it as well while something may still ask for that one.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"

# The name that sshd's default list has for ECDSA keys, and one for those of the other curve.
NAMES=(ecdsa ecdsa384)

install_keys() {
  local ssh=$ROOT/etc/ssh key name path wanted=' '
  step "install the SSH host key"
  for key in host_key older_host_key; do
    [[ $key == host_key || -e $FOLDER/$key ]] || continue
    [[ -s $FOLDER/$key && -s $FOLDER/$key.pub ]] || die "$key and $key.pub are missing in $FOLDER"
    case $(<"$FOLDER/$key.pub") in
      ecdsa-sha2-nistp256\ *) name=ecdsa ;;
      ecdsa-sha2-nistp384\ *) name=ecdsa384 ;;
      *) die "$key.pub is no ECDSA key of P-256 or P-384" ;;
    esac
    path=$ssh/ssh_host_${name}_key
    # sshd does not offer a key next to the public half of another one.
    cmp -s -- "$FOLDER/$key" "$path" || rm -f -- "$path.pub"
    copy_file "$FOLDER/$key" "$path" 0600
    copy_file "$FOLDER/$key.pub" "$path.pub" 0644
    wanted+="$name "
  done
  for name in "${NAMES[@]}"; do
    [[ $wanted == *" $name "* ]] || remove_file "$ssh/ssh_host_${name}_key"{,.pub}
  done
  list_host_keys
  if ((${#CHANGED[@]})); then
    sync -f "$ssh"
    reload_sshd
    # To whoever connects before that it shows the old keys. Of two, it shows only one there.
    [[ $VERB == rotate ]] || wait_for 5 "sshd to show the new host key" shows_key || true
  else
    log "the host keys are in place already"
  fi
}

shows_key() {
  local key
  read -r _ key _ <"$FOLDER/host_key.pub"
  [[ $(ssh-keyscan -T 1 -t ecdsa 127.0.0.1 2>/dev/null) == *" $key"* ]]
}

require_root
load_env NODE_NAME
lock
case $VERB in
  install)
    # Before the keys, which are synced: without it the one-time key would stay for ever.
    [[ ! -e $ROOT/etc/ssh/ssh_host_ed25519_key ]] || : >"$STATE_DIR/one-time-host-key"
    install_keys
    ;;
  rotate) install_keys ;;
  *) die "usage: host-key.sh install|rotate" ;;
esac
