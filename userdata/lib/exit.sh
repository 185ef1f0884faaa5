#!/usr/bin/env bash
# The end of a script: cleanups, signals, unexpected errors. Sourced by lib.sh.

CLEANUPS=() # commands to run on the way out, last first

at_exit() {
  CLEANUPS+=("$1")
}

leave_script() {
  local code=$? index
  set +e
  trap - ERR
  trap '' PIPE # no one listens any more: the rest is done all the same
  for ((index = ${#CLEANUPS[@]} - 1; index >= 0; index--)); do
    eval "${CLEANUPS[index]}"
  done
  if [[ $code == 0 ]]; then
    forget_changes
  elif [[ $VERB == configure ]]; then
    # Pulumi keeps the settings of before, and would see nothing to do.
    log "if you take the change back that led to this: pulumi up --replace '**-configure'"
  fi
  exit "$code"
}

unexpected() {
  die "line $2: \"$3\" ended with status $1"
}

trap 'unexpected "$?" "$LINENO" "$BASH_COMMAND"' ERR
trap leave_script EXIT
trap 'exit 130' INT
trap 'log "ERROR: $SCRIPT $VERB was ended in step \"$STEP\""; exit 143' TERM HUP
trap 'exit 141' PIPE # the connection is gone
