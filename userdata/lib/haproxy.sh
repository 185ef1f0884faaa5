#!/usr/bin/env bash
# HAProxy: on gateways for everybody, on nodes for what runs there. Sourced, never run.

HAPROXY_CFG=$ROOT/etc/haproxy/haproxy.cfg
HAPROXY_CA=$ROOT/etc/haproxy/openstack-kubernetes-ca.crt
HAPROXY_SOCKET=$ROOT/run/haproxy/admin.sock
HAPROXY_HEALTH=127.0.0.1:8404

# haproxy_base LINE...: the global and default settings, and the port that says "alive".
haproxy_base() {
  cat <<EOT
# Written by openstack-kubernetes ($SCRIPT): changes are lost at the next run.
global
  user haproxy
  group haproxy
  stats socket $HAPROXY_SOCKET mode 600 level admin
  hard-stop-after 4h
$(printf '  %s\n' "$@")

defaults
  mode tcp
  option redispatch 1
  option dontlognull
  option clitcpka
  option srvtcpka
  srvtcpka-idle 5s
  srvtcpka-intvl 1s
  srvtcpka-cnt 3
  retries 4
  timeout connect 1s
  timeout client 1m
  timeout server 1m
  timeout tunnel 4h
  timeout client-fin 30s
  timeout server-fin 30s
  timeout check 2s

frontend health
  mode http
  bind $HAPROXY_HEALTH
  http-request return status 200 content-type text/plain string ok if { path /healthz }
  http-request return status 404
EOT
}

# haproxy_api TIMES ADDRESS:PORT...: the API behind these addresses, balanced over every control
# plane that is ready; TIMES are the intervals of the health checks.
haproxy_api() {
  local times=$1 bind address
  shift
  printf '\nfrontend api\n'
  for bind; do
    printf '  bind %s\n' "$bind"
  done
  cat <<EOT
  default_backend api

backend api
  balance roundrobin
  option httpchk
  http-check send meth GET uri /readyz
  http-check expect status 200
  default-server check check-ssl verify required ca-file $HAPROXY_CA $times
EOT
  for address in $CONTROL_PLANE_ADDRESSES; do
    # tcp-ut ends connections to a machine that fell silent. (on-marked-down shutdown-sessions does
    # too, but leaves the clients of connections that were just being opened hanging; and in
    # default-server tcp-ut is ignored.)
    printf '  server %s %s:6443 tcp-ut 2s\n' "$address" "$address"
  done
}

# haproxy_apply CONTENT: checks the configuration, puts it in place, reloads only on a change.
haproxy_apply() {
  local content=$1 trial fault
  need_packages haproxy=haproxy
  [[ ! -e $FOLDER/ca.crt ]] || copy_file "$FOLDER/ca.crt" "$HAPROXY_CA" 0644
  trial=$(mktemp -- "$RUN_DIR/haproxy.XXXXXXXX")
  at_exit "rm -f -- '$trial'"
  printf '%s\n' "$content" >"$trial"
  fault=$(haproxy -c -q -f "$trial" 2>&1) || die "HAProxy refuses its configuration: $fault"
  write_file "$HAPROXY_CFG" 0644 "$content"
  unit_apply haproxy.service "$HAPROXY_CFG" "$HAPROXY_CA"
  wait_for 15 "HAProxy" haproxy_alive || die "HAProxy does not answer on $HAPROXY_HEALTH" haproxy.service
}

haproxy_alive() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 2 "http://$HAPROXY_HEALTH/healthz"
}

# The API of the cluster on every node, whichever control planes live: API_NAME:7443.
# Checks are slower than on the gateways: every node makes them.
configure_api_proxy() {
  step "node-local HAProxy for $API_NAME:7443"
  write_hosts
  haproxy_apply "$(haproxy_base 'fd-hard-limit 10000' 'nbthread 1' 'spread-checks 20')
$(haproxy_api 'inter 2s fastinter 300ms downinter 1s fall 2 rise 1' 127.0.0.1:7443)"
}

wait_for_api_proxy() {
  wait_for "${API_TIMEOUT:-300}" "the cluster's API at $API_NAME:7443" api_ready "$API_NAME:7443"
}
