#!/usr/bin/env bash
# The timer that runs reboot.sh on a gateway. Sourced by gateway.sh.

# Every 20 minutes, at another minute on each gateway.
configure_reboots() {
  local FILES=$HERE/reboot/files unit=openstack-kubernetes-reboot service timer
  if [[ -z ${REBOOT_START:-} ]]; then
    timer_remove "$unit"
    rm -f -- "$METRICS_DIR/reboot.prom"
    return
  fi
  step "reboots"
  service=$(render "$FILES/openstack-kubernetes-reboot.service" SCRIPTS_DIR)
  timer=$(render "$FILES/openstack-kubernetes-reboot.timer" MINUTE="$(printf '%02d' $((OWN_INDEX % 5 * 4)))")
  timer_apply "$unit" "$service" "$timer"
}
