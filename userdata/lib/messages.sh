#!/usr/bin/env bash
# Messages of a run, to its caller and to the journal. Sourced by lib.sh.

STEP=start

log() {
  printf '%(%H:%M:%S)T %s\n' -1 "$*" >&2
  logger -t "openstack-kubernetes/$SCRIPT" -- "$*" 2>/dev/null || return 0
}

step() {
  STEP=$*
  log "== $*"
}

# die MESSAGE [UNIT]: names the node, the step and, with a unit, the last lines of its journal.
die() {
  local machine
  trap - ERR
  machine=$(hostname)
  log "ERROR: node ${NODE_NAME:-$machine}, $SCRIPT $VERB, step \"$STEP\": $1"
  if [[ -n ${2:-} ]]; then
    log "unit $2 is $(systemctl is-active -- "$2" 2>&1 || true); the last lines of its journal:"
    unit_log "$2"
  fi
  log "the whole run: journalctl -t openstack-kubernetes/$SCRIPT on $machine"
  exit 1
}

unit_log() {
  { journalctl --no-pager --quiet --output=cat --lines=15 --unit="$1" 2>&1 || true; } |
    sed 's/^/  | /' >&2
}

# complaint COMMAND...: the last lines of the output of a command that fails, for an error message.
complaint() {
  { "$@" 2>&1 </dev/null || true; } | tail -n 3
}

# run COMMAND...: its output goes to standard error and to the journal; its status is returned. A
# program that hangs is ended.
run() {
  local seconds=${COMMAND_TIMEOUT:-1800}
  local -a statuses limit=(timeout --kill-after=30 "$seconds")
  ! declare -F "$1" >/dev/null || limit=()
  log "+ $*"
  "${limit[@]}" "$@" 2>&1 </dev/null | journal && return 0
  statuses=("${PIPESTATUS[@]}")
  [[ ${statuses[0]} != 124 ]] || log "$1 did not end within $seconds s"
  return "${statuses[0]}"
}

# journal: a program that is at work, dpkg for example, outlives the connection of this run.
journal() {
  if [[ ! -S $ROOT/run/systemd/journal/stdout ]] || ! command -v systemd-cat >/dev/null; then
    cat >&2
  elif [[ -S /dev/stderr ]]; then # a unit's, which leads to the journal too
    systemd-cat -t "openstack-kubernetes/$SCRIPT"
  else
    tee -p /dev/stderr | systemd-cat -t "openstack-kubernetes/$SCRIPT"
  fi
}
