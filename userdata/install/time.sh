#!/usr/bin/env bash
# The time servers of the configuration. Sourced by install.sh.

# By chrony where it is installed, else by systemd-timesyncd. Without TIME_SERVERS the machine keeps
# those of its image.
configure_time_servers() {
  local path=$ROOT/etc/systemd/timesyncd.conf.d/openstack-kubernetes.conf
  local unit=systemd-timesyncd.service text="[Time]"$'\n'"NTP=${TIME_SERVERS:-}"
  if [[ -e $ROOT/usr/sbin/chronyd ]]; then
    path=$ROOT/etc/chrony/sources.d/openstack-kubernetes.sources
    unit=chrony.service
    # shellcheck disable=SC2086 # one word for each
    text=$(printf 'server %s iburst prefer\n' ${TIME_SERVERS:-})
  fi
  if [[ -n ${TIME_SERVERS:-} ]]; then
    step "time servers"
    [[ -e $ROOT/usr/sbin/chronyd ]] || want_packages systemd-timesyncd
    write_file "$path" 0644 "$text"
  elif [[ -e $path ]]; then
    log "$path is not wanted any more"
    note_change "$path"
    rm -f -- "$path"
  else
    return 0
  fi
  unit_apply_restart "$unit" "$path"
}
