#!/usr/bin/env bash
# reboot.sh check: reboots this gateway when an update requires it and no one will notice.
#
# A timer runs it, at another minute on each gateway. It reboots in the maintenance window only, while
# every other gateway is healthy; backups first, then the active one, when it has handed over the VIP.
# When something is in the way, the next run tries again.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"

REBOOT_REQUIRED=$ROOT/run/reboot-required
LOCKS=$ROOT/run/lock
# Minutes in which every gateway's timer has run once, and a reboot has ended.
ROUND=25
# The day on which no other gateway took over; gone after a boot.
NO_SUCCESSOR=$RUN_DIR/no-successor
# Exists while keepalived is stopped for a hand-over; gone after a boot.
HANDING_OVER=$RUN_DIR/handing-over

check() {
  local obstacle
  step "reboot"
  (report_reboot) || log "the metric of this cannot be written"
  take_back
  [[ -e $REBOOT_REQUIRED ]] || return 0
  [[ $REBOOT_TIME_ZONE == UTC || -e $ROOT/usr/share/zoneinfo/$REBOOT_TIME_ZONE ]] ||
    die "this machine does not know the time zone $REBOOT_TIME_ZONE: install tzdata-legacy"
  obstacle=$(first_obstacle)
  if [[ -n $obstacle ]]; then
    wait_with_reboot "$obstacle"
    return
  fi
  if [[ -n ${PEERS:-} ]] && holds_vip; then
    hand_over || return 0
  fi
  log "rebooting: $(tr '\n' ' ' <"$REBOOT_REQUIRED")"
  systemctl reboot
}

# For addons/monitoring/alerts/gateways.py.
report_reboot() {
  local metric=openstack_kubernetes_reboot_required required=0
  [[ ! -e $REBOOT_REQUIRED ]] || required=1
  echo "$metric $required" |
    write_gauge "$METRICS_DIR/reboot.prom" "$metric" "Whether an update of this gateway requires a reboot."
}

# first_obstacle: prints what to wait for, if there is something.
first_obstacle() {
  local open peer
  if ! open=$(minutes_open); then
    echo "for the maintenance window ($REBOOT_DAYS, $REBOOT_START to $REBOOT_END $REBOOT_TIME_ZONE)"
  elif ! no_one_at_work; then
    echo "until no one is working on this machine, or through it by SSH"
  elif ! others_healthy; then
    echo "for the gateway $peer, whose HAProxy does not answer"
  elif ! api_ready "127.0.0.1:$API_PORT"; then
    echo "until the API answers"
  elif [[ -z ${PEERS:-} ]]; then
    return
  elif ! holds_vip; then
    alive "$VIP" || echo "until another gateway serves $VIP"
  elif [[ $({ cat "$NO_SUCCESSOR" 2>/dev/null || true; }) == "$(date -u +%F)" ]]; then
    echo "until tomorrow: no other gateway took over today; look at keepalived there"
  elif ((open < ROUND)); then
    echo "for the other gateways, which come first: this one is active"
  fi
}

wait_with_reboot() {
  log "a reboot is required: waiting $1"
}

# minutes_open: for how long the window has been open; status 1 when it is closed.
minutes_open() {
  local day now start end
  read -r day now < <(TZ=$REBOOT_TIME_ZONE date '+%a %H:%M')
  day=${day:0:2}
  [[ " $REBOOT_DAYS " == *" ${day,,} "* ]] || return 1
  now=$(minutes "$now") start=$(minutes "$REBOOT_START") end=$(minutes "$REBOOT_END")
  ((start <= now && now <= end)) || return 1
  printf '%s' $((now - start))
}

minutes() {
  printf '%s' $((10#${1%:*} * 60 + 10#${1#*:}))
}

# Nodes are drained and configured from here. SSH to another machine, which the active gateway
# forwards, counts too.
no_one_at_work() {
  local file
  for file in "$LOCKS"/openstack-kubernetes-*; do
    [[ ! -e $file ]] || flock --nonblock "$file" true || return 1
  done
  [[ -z $(ss -Htn state established '( sport = :22 or dport = :22 )') ]]
}

# others_healthy: sets `peer` to the first one that is not.
others_healthy() {
  for peer in ${PEERS:-}; do
    alive "$peer" || return
  done
}

# alive ADDRESS: whether the HAProxy of the gateway that has this address answers.
alive() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 3 \
    "http://$1:$GATEWAY_STATUS_PORT/healthz"
}

holds_vip() {
  [[ -n $(ip -o -4 address show to "$VIP/32") ]]
}

# Planned, this costs no new connection to the API; status 1 when no other gateway took over, and
# this one continues to serve.
hand_over() {
  log "handing $VIP over to another gateway"
  : >"$HANDING_OVER"
  systemctl stop keepalived.service
  wait_for "${HAND_OVER_TIMEOUT:-15}" "another gateway with $VIP" served_by_another && return 0
  date -u +%F >"$NO_SUCCESSOR"
  take_back
  wait_with_reboot "until another gateway can take over: none did"
  return 1
}

# take_back: also after a run that was killed in a hand-over.
take_back() {
  [[ -e $HANDING_OVER ]] || return 0
  systemctl start keepalived.service || die "keepalived does not start again" keepalived.service
  rm -f -- "$HANDING_OVER"
}

served_by_another() {
  ! holds_vip && alive "$VIP"
}

require_root
load_env NODE_IP VIP REBOOT_DAYS REBOOT_START REBOOT_END REBOOT_TIME_ZONE API_PORT \
  GATEWAY_STATUS_PORT
lock
case $VERB in
  check) check ;;
  *) die "usage: reboot.sh check" ;;
esac
