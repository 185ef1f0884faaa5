#!/usr/bin/env bash
# The API of the cluster on every node, whichever control planes are alive. Sourced, never run; after
# lib/haproxy.sh.

# Every probe is a TLS handshake, and every node probes: seldom, as long as all is well. A connection
# that fails lets the next probes come at once, and finds another control plane within a second. A
# place without a machine, and one that is down, costs no handshake.
PROBES='inter 10s fastinter 500ms downinter 1s fall 2 rise 1 observe layer4 error-limit 1 on-error fastinter'

configure_api_proxy() {
  local config
  need_env API_PORT LOCAL_API_PORT HAPROXY_HEALTH_PORT
  step "node-local HAProxy for $API_NAME:$LOCAL_API_PORT"
  write_hosts
  config=$(
    haproxy_base 'fd-hard-limit 10000' 'nbthread 1' 'spread-checks 20'
    haproxy_api "$PROBES" "127.0.0.1:$LOCAL_API_PORT"
  )
  haproxy_apply "$config"
}

wait_for_api_proxy() {
  wait_for "${API_TIMEOUT:-300}" "the cluster's API at $API_NAME:$LOCAL_API_PORT" \
    api_ready "$API_NAME:$LOCAL_API_PORT"
}
