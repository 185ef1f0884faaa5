#!/usr/bin/env bash
# The distribution's security updates, by a timer of our own: apt-daily would wait for nothing.
# Sourced by install.sh.

UPDATES_UNIT=openstack-kubernetes-updates
UPDATES_METRICS=$METRICS_DIR/security-updates.prom

# Only what the distribution calls security comes in, so neither containerd.io nor Kubernetes'
# packages do.
configure_updates() {
  local service timer at spread
  if [[ ${SECURITY_UPDATES:-} != true ]]; then
    timer_remove "$UPDATES_UNIT"
    rm -f -- "$UPDATES_METRICS"
    return
  fi
  step "security updates"
  want_packages unattended-upgrades
  copy_file "$FILES/52openstack-kubernetes" "$ROOT/etc/apt/apt.conf.d/52openstack-kubernetes" 0644
  read -r at spread < <(update_time)
  service=$(render "$FILES/openstack-kubernetes-updates.service" SCRIPTS_DIR)
  timer=$(render "$FILES/openstack-kubernetes-updates.timer" AT="$at" SPREAD="$spread")
  timer_apply "$UPDATES_UNIT" "$service" "$timer"
  # The time is counted from here; in an image, it would be that of all its machines.
  [[ -e $UPDATES_METRICS || ! -r $FOLDER/node.env ]] || report_updates
}

# For addons/monitoring/alerts/security_updates.py.
report_updates() {
  local metric=openstack_kubernetes_security_updates_timestamp_seconds
  echo "$metric $(date +%s)" |
    write_gauge "$UPDATES_METRICS" "$metric" "When this machine last installed all security updates."
}

# update_time: when, and within how long from then. Nodes update at some time of the night, gateways
# each in an hour of its own: a new HAProxy restarts.
update_time() {
  if [[ ${ROLE:-} == gateway ]]; then
    printf '%02d:00 30m\n' "$(gateway_index)"
  else
    echo 00:00 4h
  fi
}

# Run by the timer. needrestart must not restart containerd or the kubelet.
update() {
  local status=0 unread=75
  step "security updates"
  # Other runs on this machine update apt's lists too, and apt does not wait for them.
  (
    # Nothing but `die` ends this subshell early: its status is asked for.
    LOCK_TIMEOUT=${LOCK_TIMEOUT:-3600} lock
    forget_repositories
    (apt_update) || exit "$unread"
  ) || status=$?
  ((status == 0 || status == unread)) || exit "$status"
  # No reboot before the end: the kernel's package asks for one while dpkg is still at work, which
  # inherits this lock. Gateways and kured look at it.
  mkdir -p -- "$ROOT/run/lock"
  exec 7>"$ROOT/run/lock/$UPDATES_UNIT"
  flock --timeout "${UPDATES_TIMEOUT:-1800}" 7 || die "dpkg of an earlier run is still at work: ps -C dpkg"
  # Ended in the middle, dpkg would need a person.
  COMMAND_TIMEOUT=14400 NEEDRESTART_SUSPEND=1 with_proxy run unattended-upgrade --verbose ||
    die "unattended-upgrade failed: see /var/log/unattended-upgrades"
  # A source that the image brought may be gone for good: the other ones must not wait for it.
  ((status == 0)) ||
    die "some package lists could not be read, see above; updates from the others are installed"
  report_updates
}
