#!/bin/sh
# Keeps the newest files of what Pulumi writes for each update into the bucket of stacks, and never
# deletes: prune_history.sh FOLDER, the bucket's. The operator updates each stack all day, and would
# fill the volume within weeks.
set -eu

folder=$1
# Of each stack: 50 updates, which have two files each in the history, and 100 backups of its state.
keep=100
seconds=3600

prune() {
  for stack in "$folder"/.pulumi/history/*/* "$folder"/.pulumi/backups/*/*; do
    [ -d "$stack" ] || continue
    # The time is in the names, always with as many digits.
    find "$stack" -mindepth 1 -maxdepth 1 -type f -name '*.json*' | sort -r | tail -n +$((keep + 1)) |
      while read -r old; do
        rm -f -- "$old"
      done
  done
}

# The first process of a container ends at a signal only if it says so.
trap 'exit 0' TERM INT
while :; do
  prune
  sleep "$seconds" &
  wait $!
done
