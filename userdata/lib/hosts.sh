#!/usr/bin/env bash
# The names that every machine needs while there is no name server to ask. Sourced by lib.sh.

write_hosts() {
  local path=$ROOT/etc/hosts rest block entry
  block="127.0.0.1 $API_NAME"
  for entry in ${NODE_HOSTS:-}; do
    [[ ${entry#*=} == "$NODE_NAME" ]] || block+=$'\n'"${entry%%=*} ${entry#*=}"
  done
  block+=$'\n'"$NODE_IP $NODE_NAME"
  rest=$(sed '/^# openstack-kubernetes begin/,/^# openstack-kubernetes end/d' "$path")
  write_file "$path" 0644 "$rest
# openstack-kubernetes begin (written by $SCRIPT)
$block
# openstack-kubernetes end"
  # Debian's cloud image lets cloud-init write the file again at every boot.
  if [[ -d $ROOT/etc/cloud/cloud.cfg.d ]]; then
    write_file "$ROOT/etc/cloud/cloud.cfg.d/99-openstack-kubernetes.cfg" 0644 \
      'manage_etc_hosts: false'
  fi
}
