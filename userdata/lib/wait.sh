#!/usr/bin/env bash
# Waiting, within limits. Sourced by lib.sh.

# wait_for SECONDS WHAT COMMAND...: asks until it succeeds; status 1 when the time is over. What takes
# long is asked for less often: a kubectl needs a tenth of a second of a processor, and a gateway waits
# for many nodes at the same time.
wait_for() {
  local limit=$1 what=$2 uptime start told pause
  shift 2
  read_uptime
  start=$uptime told=$uptime
  until "$@"; do
    read_uptime
    if ((uptime - start >= limit)); then
      log "$what: not within $limit s"
      return 1
    fi
    if ((uptime - told >= 15)); then
      told=$uptime
      log "waiting for $what ($((uptime - start)) of at most $limit s)"
    fi
    pause=0.3
    ((uptime - start < 5)) || pause=2
    sleep "${WAIT_PAUSE:-$pause}"
  done
}

# read_uptime: sets `uptime`, in seconds. SECONDS would jump with the clock, which may be set meanwhile.
read_uptime() {
  IFS=. read -r uptime _ </proc/uptime
}

# wait_for_first_boot: cloud-init writes apt's sources, installs packages and runs user_data's script.
wait_for_first_boot() {
  local run=$ROOT/run/cloud-init
  [[ -e $run/enabled && ! -e $run/result.json ]] || return 0
  wait_for "${BOOT_TIMEOUT:-600}" "the first boot" test -e "$run/result.json" ||
    log "cloud-init has not ended: continuing"
}

# api_ready ADDRESS:PORT: whether an API server of this cluster answers there and is ready.
api_ready() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 3 \
    --cacert "$FOLDER/ca.crt" "https://$1/readyz"
}
