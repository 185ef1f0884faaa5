#!/usr/bin/env bash
# Kured's reboots and the changes of this program keep out of each other's way. Sourced, never run.

# An annotation of kured's DaemonSet. Only the node that it names may reboot.
KURED_LOCK=weave.works/kured-node-lock
LOCK_OWNER=openstack-kubernetes
# It ends by itself: several scripts may hold it, and a node that was drained is back only after the
# next one has run. This is for all but the drain, which may take hours.
HOLD_SECONDS=3600

# wait_for_reboots [NODE]: until kured reboots no node, or this one, which may; then it begins with none
# for an hour and the time that a drain may take.
wait_for_reboots() {
  step "wait for reboots"
  wait_for "${REBOOT_TIMEOUT:-2100}" "kured" hold_reboots "$@" ||
    die "$obstacle. If it does not reboot: kubectl -n kured annotate daemonset kured $KURED_LOCK-. Then run again"
}

# hold_reboots [NODE]: sets `obstacle` if it fails. A lock that names no Node holds kured already.
hold_reboots() {
  local version lock holder found
  obstacle="the lock of kured cannot be read or written (kubectl -n kured get daemonset kured)"
  read_lock || return
  [[ -n $version ]] || return 0
  if [[ -n $lock && $holder != "$LOCK_OWNER" ]]; then
    [[ -n $holder && $holder != "${1:-}" ]] || return 0
    found=$(kube get node "$holder" --ignore-not-found -o name) || return
    [[ -n $found ]] || return 0
    obstacle="kured reboots $holder"
    return 1
  fi
  write_lock
}

# take_over_lock NODE: no one would end that of a node that has left, and no other node would ever reboot.
take_over_lock() {
  local version lock holder
  read_lock || return
  [[ $holder != "$1" ]] || write_lock
}

# read_lock: sets `version`, empty without kured, `lock` and `holder`, each empty without a lock.
read_lock() {
  local text
  version='' lock='' holder=''
  text=$(kube -n kured get daemonset kured --ignore-not-found -o \
    jsonpath="{.metadata.resourceVersion}{'|'}{.metadata.annotations.${KURED_LOCK//./\\.}}") || return
  IFS='|' read -r version lock <<<"$text"
  [[ ! $lock =~ \"nodeID\":\"([-.a-z0-9]+)\" ]] || holder=${BASH_REMATCH[1]}
}

# write_lock: of two that write at the same time, the first one wins. That of another script may be for a
# longer drain.
write_lock() {
  local seconds=$((HOLD_SECONDS + ${DRAIN_TIMEOUT:-600}))
  [[ $holder != "$LOCK_OWNER" ]] || ! lock_lasts "$seconds" || return 0
  kube -n kured annotate daemonset kured --overwrite --resource-version="$version" \
    "$KURED_LOCK={\"nodeID\":\"$LOCK_OWNER\",\"created\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\",\"TTL\":${seconds}000000000}" >/dev/null
}

# lock_lasts SECONDS: whether the lock holds for as long, or longer.
lock_lasts() {
  [[ $lock =~ \"created\":\"([-0-9TZ:]+)\".*\"TTL\":([0-9]+) ]] || return 1
  (($(date -d "${BASH_REMATCH[1]}" +%s) + BASH_REMATCH[2] / 1000000000 >= $(date +%s) + $1))
}
