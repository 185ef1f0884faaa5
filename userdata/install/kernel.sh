#!/usr/bin/env bash
# Kernel modules and sysctls for pods. Sourced by install.sh.

configure_kernel() {
  local module missing=() modules=$ROOT/etc/modules-load.d/openstack-kubernetes.conf
  local sysctls=$ROOT/etc/sysctl.d/80-openstack-kubernetes.conf
  local forwarding=$ROOT/proc/sys/net/ipv4/ip_forward
  step "kernel"
  copy_file "$FILES/modules.conf" "$modules" 0644
  copy_file "$FILES/sysctl.conf" "$sysctls" 0644
  systemd_runs || return 0
  if changed "$modules" "$sysctls"; then
    while read -r module; do
      modprobe -q "$module" 2>/dev/null || missing+=("$module")
    done <"$modules"
    ((${#missing[@]} == 0)) || log "not loaded (built in, or not there): ${missing[*]}"
    sysctl -q -p "$sysctls" 2>/dev/null || true # a container may not set them all
  fi
  [[ $(<"$forwarding") == 1 ]] || echo 1 >"$forwarding"
}
