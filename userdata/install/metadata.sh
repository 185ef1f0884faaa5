#!/usr/bin/env bash
# Keeps pods from the cloud's metadata service. Sourced by install.sh.

deny_metadata() {
  local name=openstack-kubernetes-metadata unit rules=$CONF_DIR/metadata.nft text
  unit=$UNIT_DIR/$name.service
  step "pods and the metadata service"
  copy_file "$FILES/metadata.nft" "$rules" 0644
  text=$(render "$FILES/openstack-kubernetes-metadata.service" RULES="$rules")
  write_file "$unit" 0644 "$text"
  read_units "$unit"
  unit_apply_restart "$name.service" "$unit" "$rules"
  # Others may have flushed all tables.
  if systemd_runs && ! nft list table ip openstack-kubernetes >/dev/null 2>&1; then
    systemctl restart "$name.service" ||
      die "pods cannot be kept from the metadata service" "$name.service"
  fi
}
