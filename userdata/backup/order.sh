#!/usr/bin/env bash
# The order of snapshots, whose names begin with the time. Sourced, never run.

# oldest_first: sorts names, with or without folders. One that is of the future was taken under a wrong
# clock: it counts as older than all others, or it would stay the newest for years.
oldest_first() {
  local soon
  soon=$(date -u -d '+1 hour' +%Y%m%dT%H%M%SZ)
  awk -F / -v soon="$soon" '{ print ($NF > soon ? 0 : 1), $NF, $0 }' | sort | cut -d ' ' -f 3-
}
