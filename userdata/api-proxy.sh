#!/usr/bin/env bash
# The node-local HAProxy of control planes and workers. Sourced, never run.

# The API of the cluster on every node, whichever control planes live: API_NAME:7443.
# Checks are slower than on the gateways: every node makes them.
configure_api_proxy() {
  step "node-local HAProxy for $API_NAME:7443"
  write_hosts
  haproxy_apply "$(haproxy_base 'fd-hard-limit 10000' 'nbthread 1' 'spread-checks 20')
$(haproxy_api 'inter 2s fastinter 300ms downinter 1s fall 2 rise 1' 127.0.0.1:7443)"
}
