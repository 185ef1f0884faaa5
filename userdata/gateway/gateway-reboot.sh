#!/usr/bin/env bash
# gateway-reboot.sh check: reboots this gateway when an update asks for it and nobody will notice.
#
# Run by a timer, at another minute on each gateway, so that two never decide at the same time. It
# reboots in the maintenance window only, while every other gateway is well; a backup first, the
# active one when the backups have had their turn, after it has given the VIP away. Whatever is in
# the way, the timer asks again.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"

REBOOT_REQUIRED=$ROOT/run/reboot-required
LOCKS=$ROOT/run/lock
# Minutes in which every gateway's timer has run once, and a reboot has ended.
ROUND=25

check() {
  step "reboot"
  [[ -e $REBOOT_REQUIRED ]] || return 0
  local open
  [[ $REBOOT_TIME_ZONE == UTC || -e $ROOT/usr/share/zoneinfo/$REBOOT_TIME_ZONE ]] ||
    die "this machine does not know the time zone $REBOOT_TIME_ZONE: install tzdata"
  open=$(minutes_open) || {
    log "a reboot is wanted: it waits for the maintenance window ($REBOOT_DAYS, $REBOOT_START to $REBOOT_END $REBOOT_TIME_ZONE)"
    return 0
  }
  nobody_at_work || {
    log "a reboot is wanted: it waits until nobody works on this machine, or through it by SSH"
    return 0
  }
  others_well || return 0
  api_ready 127.0.0.1:6443 || {
    log "a reboot is wanted: it waits until the API answers"
    return 0
  }
  if [[ -n ${PEERS:-} ]]; then
    if holds_vip; then
      ((open >= ROUND)) || {
        log "a reboot is wanted: this gateway is the active one, the others come first"
        return 0
      }
      hand_over || return 0
    elif ! alive "$VIP"; then
      log "a reboot is wanted: it waits until another gateway serves $VIP"
      return 0
    fi
  fi
  log "rebooting: $(tr '\n' ' ' <"$REBOOT_REQUIRED")"
  systemctl reboot
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

# A gate runs here, and a node's bootstrap comes through here: they must not be cut off. SSH to
# another machine counts too: the active gateway forwards it.
nobody_at_work() {
  local file
  for file in "$LOCKS"/openstack-kubernetes-*; do
    [[ ! -e $file ]] || flock --nonblock "$file" true || return 1
  done
  [[ -z $(ss -Htn state established '( sport = :22 or dport = :22 )') ]]
}

others_well() {
  local peer
  for peer in ${PEERS:-}; do
    alive "$peer" || {
      log "a reboot is wanted: it waits for the gateway $peer, whose HAProxy does not answer"
      return 1
    }
  done
}

# alive ADDRESS: does the HAProxy of the gateway that has this address answer?
alive() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 3 "http://$1:8405/healthz"
}

holds_vip() {
  [[ -n $(ip -o -4 address show to "$VIP/32") ]]
}

# Planned, this costs nobody a connection to the API that is opened anew; status 1 when no other
# gateway took over, and this one serves on.
hand_over() {
  log "giving $VIP to another gateway"
  systemctl stop keepalived.service
  wait_for "${HAND_OVER_TIMEOUT:-15}" "another gateway with $VIP" served_by_another && return 0
  systemctl start keepalived.service || die "keepalived does not start again" keepalived.service
  log "a reboot is wanted, but no other gateway took over: this one stays"
  return 1
}

served_by_another() {
  ! holds_vip && alive "$VIP"
}

require_root
load_env NODE_IP VIP REBOOT_DAYS REBOOT_START REBOOT_END REBOOT_TIME_ZONE
lock
case $VERB in
  check) check ;;
  *) die "usage: gateway-reboot.sh check" ;;
esac
