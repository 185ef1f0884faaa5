#!/usr/bin/env bash
# The machine's clock, before it joins. Sourced, never run.
#
# Certificates and tokens are valid for a time. With a wrong clock HAProxy finds no API server, the
# kubelet's certificate is not valid yet, and no message names the reason.

CLOCK_SECONDS=30 # how far it may be off

# check_clock ADDRESSES: of control planes. A machine that has just booted may still be waiting for its
# time server.
check_clock() {
  step "the clock"
  clock_fault=''
  wait_for "${CLOCK_TIMEOUT:-60}" "a clock that is right" clock_is_right "$1" ||
    die "the clock of this machine $clock_fault: certificates and tokens would not be valid here. Set it (timedatectl), for example with the configuration's timeServers, then run again"
}

# clock_is_right ADDRESSES: by the cluster's CA, and by the first API server that answers. It sets
# `clock_fault` if it fails.
clock_is_right() {
  local now created address date answered off
  now=$(date +%s)
  created=$(openssl x509 -in "$FOLDER/ca.crt" -noout -startdate 2>/dev/null | cut -d = -f 2) || created=''
  if [[ -n $created ]] && ((now + CLOCK_SECONDS < $(date -d "$created" +%s))); then
    clock_fault="says $(date -u), but the cluster's CA was made at $created, by the clock of the machine that runs Pulumi"
    return 1
  fi
  for address in $1; do
    # With a wrong clock the certificate could not be verified.
    date=$(curl --silent --insecure --output /dev/null --noproxy '*' --connect-timeout 2 --max-time 4 \
      --write-out '%header{date}' "https://$address:$API_PORT/livez") || continue
    answered=$(date -d "$date" +%s 2>/dev/null) && [[ -n $date ]] || continue
    off=$(($(date +%s) - answered))
    ((off > CLOCK_SECONDS || off < -CLOCK_SECONDS)) || return 0
    clock_fault="is $off seconds ahead of that of the API server at $address"
    ((off > 0)) || clock_fault="is $((-off)) seconds behind that of the API server at $address"
    return 1
  done
}
