#!/usr/bin/env bash
# keepalived: which gateway has the VIP. Sourced by gateway.sh.

configure_keepalived() {
  local drop_in=$UNIT_DIR/keepalived.service.d/openstack-kubernetes.conf
  local path=$ROOT/etc/keepalived/keepalived.conf interface peers='' place config priority
  # Not among the scripts, whose folder changes: keepalived wants a path without links.
  local health_script=$LIB_DIR/haproxy-health.sh
  step "keepalived"
  read -r _ interface _ < <(ip -o -4 address show to "$NODE_IP/32") ||
    die "no interface has the address NODE_IP $NODE_IP"
  # It does not ask for API servers: if none is alive, no other gateway is better.
  config=$(render "$FILES/haproxy-health.sh" HAPROXY_HEALTH_PORT)
  write_file "$health_script" 0755 "$config"
  # Every address that a gateway can have: no one that comes or leaves has the VIP as well.
  for place in $GATEWAY_PLACES; do
    [[ $place == "$NODE_IP" ]] || peers+=$'\n'"    $place"
  done
  priority=$((OWN_INDEX < 10 ? 200 - 10 * OWN_INDEX : 100))
  config=$(render "$FILES/keepalived.conf" NODE_NAME NODE_IP VIP VRRP_ID INTERFACE="$interface" \
    PEERS="$peers" PRIORITY="$priority" HEALTH_SCRIPT="$health_script")
  try_keepalived "$config"
  write_file "$path" 0644 "$config"
  # Debian's unit leaves one that ends as it is, and systemd gives up after five quick ends.
  write_file "$drop_in" 0644 $'[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=1s'
  read_units "$drop_in"
  unit_apply keepalived.service "$path"
}

try_keepalived() {
  local trial fault status=0
  trial=$(mktemp -- "$RUN_DIR/keepalived.XXXXXXXX")
  at_exit "rm -f -- '$trial'"
  printf '%s\n' "$1" >"$trial"
  fault=$(keepalived --config-test --use-file "$trial" 2>&1) || status=$?
  # 2.2 ends itself by SIGTERM after testing a file with a script in it.
  ((status == 0)) || { ((status == 143)) && [[ -z $fault ]]; } ||
    die "keepalived refuses its configuration (status $status): $fault"
}
