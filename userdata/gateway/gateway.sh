#!/usr/bin/env bash
# gateway.sh configure: HAProxy, keepalived, sysctls and sshd of a gateway.
#
# Runs at first boot and whenever its input changed; HAProxy and keepalived only reload.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
source "$HERE/lib/haproxy.sh"
source "$HERE/gateway/haproxy.sh"
source "$HERE/gateway/keepalived.sh"

FILES=$HERE/gateway/files
FIRST_BOOT=openstack-kubernetes-first-boot.service

configure() {
  find_own_index
  step "packages"
  need_packages haproxy=haproxy keepalived=keepalived curl=curl
  if ! first_boot; then
    bash "$HERE/install/install.sh" kubectl || die "install.sh kubectl failed"
  fi
  install_scripts
  write_hosts
  configure_sysctl
  configure_sshd
  configure_haproxy
  configure_keepalived
  if ! first_boot; then
    source "$HERE/reboot/timer.sh"
    configure_reboots
  fi
  # A power cut leaves no empty files.
  sync --file-system -- "$CONF_DIR"
  # Only who came in by the real key shows that the program knows it.
  first_boot || drop_one_time_host_key
  log "the gateway is configured"
}

find_own_index() {
  OWN_INDEX=$(gateway_index)
  [[ -n $OWN_INDEX ]] ||
    die "NODE_IP $NODE_IP is not one of GATEWAY_ADDRESSES ($GATEWAY_ADDRESSES)"
}

# user_data has no room for install/ and reboot/: what needs them comes with the first connection.
first_boot() {
  [[ ! -e $HERE/install/install.sh ]]
}

# end_first_boot: when it has failed, systemd would start it again, with the scripts that it came with.
end_first_boot() {
  [[ -L $UNIT_DIR/$FIRST_BOOT ]] || return 0
  systemctl --quiet disable --now -- "$FIRST_BOOT" ||
    [[ $(systemctl is-active -- "$FIRST_BOOT") == inactive ]] || # it has just succeeded
    die "$FIRST_BOOT cannot be stopped" "$FIRST_BOOT"
}

configure_sysctl() {
  local path=$ROOT/etc/sysctl.d/91-openstack-kubernetes-gateway.conf
  step "sysctls"
  copy_file "$FILES/sysctl.conf" "$path" 0644
  if changed "$path" || [[ $(<"$ROOT/proc/sys/net/ipv4/ip_nonlocal_bind") != 1 ]]; then
    run sysctl -q -p "$path"
  fi
}

# Every connection to a node jumps through here, many at once.
configure_sshd() {
  local path=$ROOT/etc/ssh/sshd_config.d/10-openstack-kubernetes.conf text exempt
  step "sshd"
  text=$(<"$FILES/sshd.conf")
  # Whoever comes in at a gateway's own port has the active gateway's address. Older ones punish no one.
  exempt="PerSourcePenaltyExemptList ${GATEWAY_PLACES// /,},$VIP"
  mkdir -p -- "$ROOT/run/sshd"
  ! sshd -t -o "$exempt" >/dev/null 2>&1 || text+=$'\n'$exempt
  write_file "$path" 0644 "$text"
  ! changed "$path" || reload_sshd
}

require_root
load_env NODE_NAME NODE_IP API_NAME VIP VRRP_ID GATEWAY_ADDRESSES GATEWAY_PLACES \
  CONTROL_PLANE_ADDRESSES API_PORT LOCAL_API_PORT FIRST_GATEWAY_SSH_PORT HTTP_PORT HTTPS_PORT \
  INGRESS_HTTP_PORT INGRESS_HTTPS_PORT HAPROXY_HEALTH_PORT GATEWAY_STATUS_PORT NODE_EXPORTER_PORT
# Before the lock, which the run from user_data needs. It would install its scripts over these.
first_boot || wait_for_first_boot
lock
first_boot || end_first_boot
case $VERB in
  configure) configure ;;
  *) die "usage: gateway.sh configure" ;;
esac
