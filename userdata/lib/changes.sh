#!/usr/bin/env bash
# Changes that are perhaps not in force yet. Sourced by lib.sh.

CHANGED=()    # paths that were changed since this script last ended well
UNFINISHED='' # the file that says so to the next run, should this one be interrupted

# remember_changes: from here on, also across interrupted runs of this script and verb.
remember_changes() {
  mkdir -p -- "$STATE_DIR"
  UNFINISHED=$STATE_DIR/unfinished-$SCRIPT-$VERB
  # Of a verb with steps each has its own: another one that ends well must not forget them.
  [[ $VERB != authorities && $VERB != service-account ]] || UNFINISHED+=-$VERB_STEP
  [[ ! -e $UNFINISHED ]] || mapfile -t CHANGED <"$UNFINISHED"
}

# note_change PATH: before the path is changed, for whatever reads it must learn of it even if this
# run is interrupted in between.
note_change() {
  [[ -z $UNFINISHED ]] || printf '%s\n' "$1" >>"$UNFINISHED"
  CHANGED+=("$1")
}

# changed PATH...: whether this run changed one of them, or an interrupted one before it.
changed() {
  local path have
  for path; do
    for have in ${CHANGED[@]+"${CHANGED[@]}"}; do
      [[ $have != "$path" ]] || return 0
    done
  done
  return 1
}

# All that was changed is in force.
forget_changes() {
  [[ -z $UNFINISHED ]] || rm -f -- "$UNFINISHED"
}
