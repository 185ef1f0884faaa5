#!/usr/bin/env bash
# HAProxy: on gateways for the cluster's users, on nodes for what runs there. Sourced, never run.

HAPROXY_CFG=$ROOT/etc/haproxy/haproxy.cfg
HAPROXY_CA=$ROOT/etc/haproxy/openstack-kubernetes-ca.crt
HAPROXY_SOCKET=$ROOT/run/haproxy/admin.sock

# haproxy_base LINE...: the defaults, the port that tells whether it is alive, and these further
# global settings.
haproxy_base() {
  render "$HERE/lib/files/haproxy.cfg" SCRIPT HAPROXY_HEALTH_PORT \
    SOCKET="$HAPROXY_SOCKET" FURTHER="$(printf '  %s\n' "$@")"
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
    printf '  server %s %s:%s tcp-ut 2s\n' "$address" "$address" "$API_PORT"
  done
}

# haproxy_apply CONTENT: checks the configuration, puts it in place, reloads only on a change.
haproxy_apply() {
  local content=$1 drop_in=$UNIT_DIR/haproxy.service.d/openstack-kubernetes.conf trial fault
  need_packages haproxy=haproxy
  [[ ! -e $FOLDER/ca.crt ]] || copy_file "$FOLDER/ca.crt" "$HAPROXY_CA" 0644
  trial=$(mktemp -- "$RUN_DIR/haproxy.XXXXXXXX")
  at_exit "rm -f -- '$trial'"
  printf '%s\n' "$content" >"$trial"
  fault=$(haproxy -c -q -f "$trial" 2>&1) || die "HAProxy refuses its configuration: $fault"
  write_file "$HAPROXY_CFG" 0644 "$content"
  # systemd gives up after five quick ends, for example while memory is short.
  write_file "$drop_in" 0644 $'[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=1s'
  read_units "$drop_in"
  unit_apply haproxy.service "$HAPROXY_CFG" "$HAPROXY_CA"
  wait_for 15 "HAProxy" haproxy_alive ||
    die "HAProxy does not answer on 127.0.0.1:$HAPROXY_HEALTH_PORT" haproxy.service
}

haproxy_alive() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 2 \
    "http://127.0.0.1:$HAPROXY_HEALTH_PORT/healthz"
}
