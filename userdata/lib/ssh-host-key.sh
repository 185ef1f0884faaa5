#!/usr/bin/env bash
# The SSH host keys. Sourced by lib.sh.

# The one-time key of user_data serves until the real one has been used once.
drop_one_time_host_key() {
  local marker=$STATE_DIR/one-time-host-key
  [[ -e $marker ]] || return 0
  rm -f -- "$ROOT/etc/ssh/ssh_host_ed25519_key" "$ROOT/etc/ssh/ssh_host_ed25519_key.pub"
  list_host_keys
  reload_sshd
  rm -f -- "$marker"
  log "removed the one-time SSH host key"
}

# sshd offers one key of each type and curve, but its default list has one name for ECDSA. While
# there is a key of another curve, this file has the names of all keys.
list_host_keys() {
  local ssh=$ROOT/etc/ssh key lines=''
  local file=$ssh/sshd_config.d/openstack-kubernetes.conf
  if [[ ! -e $ssh/ssh_host_ecdsa384_key ]]; then
    remove_file "$file"
    return
  fi
  for key in "$ssh"/ssh_host_*_key; do lines+="HostKey ${key#"$ROOT"}"$'\n'; done
  write_file "$file" 0644 "${lines%$'\n'}"
}

reload_sshd() {
  mkdir -p -- "$ROOT/run/sshd"
  sshd -t || die "sshd refuses its configuration" ssh.service
  systemctl try-reload-or-restart ssh.service || die "sshd does not reload" ssh.service
}
