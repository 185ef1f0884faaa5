#!/usr/bin/env bash
# The SSH host key. Sourced by lib.sh.

# The one-time key of user_data serves until the real one has been used once.
drop_one_time_host_key() {
  local marker=$STATE_DIR/one-time-host-key
  [[ -e $marker ]] || return 0
  rm -f -- "$ROOT/etc/ssh/ssh_host_ed25519_key" "$ROOT/etc/ssh/ssh_host_ed25519_key.pub"
  reload_sshd
  rm -f -- "$marker"
  log "removed the one-time SSH host key"
}

reload_sshd() {
  mkdir -p -- "$ROOT/run/sshd"
  sshd -t || die "sshd refuses its configuration" ssh.service
  systemctl try-reload-or-restart ssh.service || die "sshd does not reload" ssh.service
}
