#!/usr/bin/env bash
# One run at a time on a machine. Sourced by lib.sh.

# A run whose connection was lost may still be at work.
lock() {
  mkdir -p -- "$RUN_DIR"
  chmod 0700 "$RUN_DIR"
  exec 9>"$RUN_DIR/lock"
  if ! flock --nonblock 9; then
    log "another run is at work on this machine: waiting for it to end"
    flock --timeout "${LOCK_TIMEOUT:-900}" 9 || die \
      "another run has been at work on this machine for ${LOCK_TIMEOUT:-900} s: look at what it waits for (lslocks), and run again when it has ended"
  fi
  remember_changes
}
