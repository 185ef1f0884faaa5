#!/usr/bin/env bash
# Units of systemd. In a chroot, where it does not run, they are enabled and never started. Sourced
# by lib.sh.

systemd_runs() {
  [[ -d $ROOT/run/systemd/system ]]
}

# unit_apply UNIT PATH...: runs, starts at boot, and has read these files; it can reload.
unit_apply() {
  _unit_apply reload "$@"
}

# unit_apply_restart UNIT PATH...: the same for one that cannot.
unit_apply_restart() {
  _unit_apply restart "$@"
}

_unit_apply() {
  local verb=$1 unit=$2
  shift 2
  unit_enable "$unit"
  systemd_runs || return 0
  if ! systemctl is-active --quiet -- "$unit"; then
    systemctl reset-failed -- "$unit" 2>/dev/null || true # not failed: nothing to reset
    systemctl start -- "$unit" || die "$unit does not start" "$unit"
  elif changed "$@"; then
    systemctl "$verb" -- "$unit" || die "$unit does not $verb" "$unit"
  fi
}

# Only the next boot needs to know; without the flag systemd would read every unit of the machine again.
unit_enable() {
  systemctl is-enabled --quiet -- "$1" || systemctl --quiet --no-reload enable -- "$1"
}

# read_units PATH...: when one of these unit files has changed.
read_units() {
  changed "$@" && systemd_runs || return 0
  systemctl daemon-reload
}

# timer_apply UNIT SERVICE TIMER: the texts of its two files; the timer runs, by this text, and
# starts at boot.
timer_apply() {
  local unit=$1 service=$UNIT_DIR/$1.service timer=$UNIT_DIR/$1.timer
  write_file "$service" 0644 "$2"
  write_file "$timer" 0644 "$3"
  read_units "$service" "$timer"
  unit_apply_restart "$unit.timer" "$timer"
}

timer_remove() {
  local unit=$1
  local -a now=()
  [[ -e $UNIT_DIR/$unit.timer ]] || return 0
  log "$unit is not wanted any more"
  ! systemd_runs || now=(--now)
  systemctl --quiet disable ${now[@]+"${now[@]}"} -- "$unit.timer" ||
    die "$unit.timer cannot be stopped" "$unit.timer"
  rm -f -- "$UNIT_DIR/$unit".{service,timer}
  ! systemd_runs || systemctl daemon-reload
}
