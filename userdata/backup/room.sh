#!/usr/bin/env bash
# Room on a disk. Sourced, never run.

# need_free FOLDER BYTES PURPOSE
need_free() {
  local free
  free=$(df --output=avail --block-size=1 -- "$1" | tail -n 1)
  ((free > $2)) || die "not enough space: $1 has $free bytes left, and needs $2 for $3"
}
