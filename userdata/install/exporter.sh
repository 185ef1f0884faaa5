#!/usr/bin/env bash
# The distribution's node-exporter, for Prometheus. Sourced by install.sh.

# Which gateway has the VIP is seen by the addresses, and whether keepalived and HAProxy run by
# their units: both are true also when keepalived is dead.
configure_exporter() {
  local unit=prometheus-node-exporter.service path=$ROOT/etc/default/prometheus-node-exporter text
  if [[ ${METRICS:-false} != true ]]; then
    if [[ -e $path ]] && systemctl is-enabled --quiet -- "$unit" 2>/dev/null; then
      step "node-exporter is no longer wanted"
      systemctl --quiet disable --now -- "$unit" || die "$unit cannot be stopped" "$unit"
    fi
    return 0
  fi
  step "node-exporter"
  want_packages prometheus-node-exporter
  text=$(render "$FILES/prometheus-node-exporter" NODE_IP NODE_EXPORTER_PORT METRICS_DIR)
  write_file "$path" 0644 "$text"
  unit_apply_restart "$unit" "$path"
}
