#!/usr/bin/env bash
# The other control planes, asked over the network. Sourced, never run.

# probe_others: asks all of them at the same time. Sets `ready` to the first address whose API is
# ready, else `listening` to those where an API server or an etcd accepts connections at all.
probe_others() {
  local address code connected
  ready='' listening=''
  while read -r address code connected; do
    if [[ $code == 200 ]]; then
      ready=$address
      return
    fi
    [[ $connected =~ ^0[.0]*$ ]] || listening+=" $address"
  done < <(ask_others)
}

ask_others() {
  local address port
  exec 9>&- # the lock: a slow answer must not hold it
  for address in $CONTROL_PLANE_ADDRESSES; do
    [[ $address != "$NODE_IP" ]] || continue
    for port in "$API_PORT" "$ETCD_PEER_PORT"; do
      # Its output says more than its exit status.
      curl --silent --output /dev/null --noproxy '*' --connect-timeout 2 --max-time 4 \
        --cacert "$FOLDER/ca.crt" --write-out "$address %{http_code} %{time_connect}\n" \
        "https://$address:$port/readyz" || true &
    done
  done
  wait
}

others_answer() {
  probe_others
  [[ -n $ready ]] || return 1
  log "the API answers at $ready"
}

# A control plane that listens but is not ready belongs to a cluster that is unhealthy or just coming
# up. Initializing next to it would create a second cluster behind the same name.
others_listen() {
  [[ -n $listening ]] || return 1
  log "a cluster exists, though its API is not ready: something listens at$listening"
}

wait_for_others() {
  wait_for "${API_TIMEOUT:-600}" "the API of another control plane" others_answer
}

refuse_if_others_live() {
  probe_others
  [[ -z $ready$listening ]] ||
    die "another control plane is there (${ready:-${listening# }}): repair it, or delete its server if it cannot be repaired, and run this once more"
}
