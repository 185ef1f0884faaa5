#!/usr/bin/env bash
# gateway.sh configure: HAProxy, keepalived, sysctls and sshd of a gateway.
#
# Runs at first boot (cloud-init, before anyone can connect) and again over SSH whenever its
# input changed. Nothing is restarted: HAProxy and keepalived reload, connections live on.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/haproxy.sh
source "$HERE/lib/haproxy.sh"

HEALTH_SCRIPT=$LIB_DIR/haproxy-health.sh
KEEPALIVED_CFG=$ROOT/etc/keepalived/keepalived.conf
SYSCTL_CFG=$ROOT/etc/sysctl.d/91-openstack-kubernetes-gateway.conf
SSHD_CFG=$ROOT/etc/ssh/sshd_config.d/10-openstack-kubernetes.conf
EXPORTER_CFG=$ROOT/etc/default/prometheus-node-exporter
STATUS_PORT=8405

configure() {
  local index=0 address
  own_index=-1
  for address in $GATEWAY_ADDRESSES; do
    [[ $address != "$NODE_IP" ]] || own_index=$index
    index=$((index + 1))
  done
  ((own_index >= 0)) || die "NODE_IP $NODE_IP is not one of GATEWAY_ADDRESSES ($GATEWAY_ADDRESSES)"

  step "packages"
  need_packages haproxy=haproxy keepalived=keepalived curl=curl
  # At first boot the folder has no install.sh: kubectl comes with the first connection.
  [[ ! -e $HERE/install/install.sh ]] || bash "$HERE/install/install.sh" kubectl || die "install.sh kubectl failed"
  install_scripts
  write_hosts
  configure_sysctl
  configure_sshd
  configure_haproxy
  configure_keepalived
  configure_exporter
  configure_reboots
  drop_one_time_host_key
  log "the gateway is configured"
}

# HAProxy listens on the VIP on every gateway, also where the VIP is not.
configure_sysctl() {
  step "sysctls"
  write_file "$SYSCTL_CFG" 0644 'net.ipv4.ip_nonlocal_bind = 1'
  [[ $(<"$ROOT/proc/sys/net/ipv4/ip_nonlocal_bind") == 1 ]] || run sysctl -q -p "$SYSCTL_CFG"
}

# Every connection to a node jumps through here, many at once.
configure_sshd() {
  step "sshd"
  write_file "$SSHD_CFG" 0644 '# Written by openstack-kubernetes: changes are lost at the next run.
MaxStartups 200:30:400
MaxSessions 200
AllowTcpForwarding yes
PasswordAuthentication no
KbdInteractiveAuthentication no'
  changed "$SSHD_CFG" || return 0
  reload_sshd
}

configure_haproxy() {
  step "HAProxy"
  local config address index=0
  config=$(haproxy_base 'fd-hard-limit 50000')
  # Without the CA there is no cluster yet: SSH is all that is needed then.
  if [[ -s $FOLDER/ca.crt ]]; then
    config+=$'\n'$(haproxy_api 'inter 500ms fastinter 200ms downinter 500ms fall 2 rise 1' \
      "$VIP:6443" 127.0.0.1:6443 127.0.0.1:7443)
  fi
  config+=$'\n'$(haproxy_status)
  config+=$'\n'$(haproxy_ingress http 80 "${INGRESS_HTTP_PORT:-}")
  config+=$'\n'$(haproxy_ingress https 443 "${INGRESS_HTTPS_PORT:-}")
  for address in $GATEWAY_ADDRESSES; do
    config+="

listen ssh-$index
  bind $VIP:$((2200 + index))
  server gateway-$index $address:22"
    index=$((index + 1))
  done
  haproxy_apply "$config"
}

# Whether this gateway's HAProxy lives, and at the VIP that of the active one, for the other
# gateways; its metrics, for Prometheus.
haproxy_status() {
  local metrics=''
  [[ ${METRICS:-false} != true ]] ||
    metrics=$'\n''  http-request use-service prometheus-exporter if { path /metrics }'
  cat <<EOT

frontend status
  mode http
  bind $NODE_IP:$STATUS_PORT
  bind $VIP:$STATUS_PORT
  http-request return status 200 content-type text/plain string ok if { path /healthz }$metrics
  http-request return status 404
EOT
}

# haproxy_ingress NAME PORT NODE_PORT: the way to the ingress behind its node port.
haproxy_ingress() {
  local name=$1 port=$2 node_port=$3 proxy='' address
  [[ -n $node_port && -n ${INGRESS_ADDRESSES:-} ]] || return 0
  [[ ${INGRESS_PROXY_PROTOCOL:-false} != true ]] || proxy=' send-proxy-v2 check-send-proxy'
  cat <<EOT

listen ingress-$name
  bind $VIP:$port
  balance leastconn
  default-server check inter 2s fastinter 500ms downinter 1s fall 2 rise 1$proxy
EOT
  for address in $INGRESS_ADDRESSES; do
    printf '  server %s %s:%s\n' "$address" "$address" "$node_port"
  done
}

configure_keepalived() {
  step "keepalived"
  local interface prefix peers='' place fault trial status=0
  read -r interface prefix < <(ip -o -4 address show to "$NODE_IP/32" |
    sed -n 's|^[0-9]*: *\([^ ]*\) .* inet [0-9.]*/\([0-9]*\) .*|\1 \2|p') ||
    die "no interface has the address NODE_IP $NODE_IP"
  write_file "$HEALTH_SCRIPT" 0755 "$(health_script)"
  # Every address that a gateway can have: whoever is new or about to leave is heard, so that two
  # never have the VIP.
  for place in $GATEWAY_PLACES; do
    [[ $place == "$NODE_IP" ]] || peers+="
    $place"
  done
  local config="# Written by openstack-kubernetes: changes are lost at the next run.
global_defs {
  router_id $NODE_NAME
  vrrp_version 3
  vrrp_garp_master_repeat 3
  vrrp_garp_master_refresh 60
  vrrp_garp_master_refresh_repeat 1
  vrrp_priority -20
  enable_script_security
  script_user nobody nogroup
}

vrrp_script haproxy {
  script \"$HEALTH_SCRIPT\"
  interval 1
  timeout 4
  fall 2
  rise 2
}

vrrp_instance api {
  state BACKUP
  nopreempt
  interface $interface
  virtual_router_id $VRRP_ID
  priority $((own_index < 10 ? 200 - 10 * own_index : 100))
  advert_int 0.3
  unicast_src_ip $NODE_IP
  unicast_peer {$peers
  }
  virtual_ipaddress {
    $VIP/$prefix dev $interface
  }
  track_script {
    haproxy
  }
}"
  trial=$(mktemp -- "$RUN_DIR/keepalived.XXXXXXXX")
  at_exit "rm -f -- '$trial'"
  printf '%s\n' "$config" >"$trial"
  fault=$(keepalived --config-test --use-file "$trial" 2>&1) || status=$?
  # 2.2 ends itself by SIGTERM after testing a file with a script in it.
  ((status == 0)) || { ((status == 143)) && [[ -z $fault ]]; } ||
    die "keepalived refuses its configuration (status $status): $fault"
  write_file "$KEEPALIVED_CFG" 0644 "$config"
  unit_apply keepalived.service "$KEEPALIVED_CFG"
}

# keepalived gives the VIP away when this fails. It asks for HAProxy, not for the API servers: if
# none of them lives, no other gateway is better.
health_script() {
  cat <<EOT
#!/bin/bash
# Does HAProxy on this gateway answer? Asked by keepalived every second. A dead one refuses at
# once; the time-out is for a machine that is only busy.
exec 3<>/dev/tcp/${HAPROXY_HEALTH/:/\/} || exit 1
printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
read -r -t 3 line <&3 && [[ \$line == *' 200 '* ]]
EOT
}

# The distribution's node-exporter. Which gateway has the VIP is seen by the addresses, and whether
# keepalived and HAProxy run by their units: both are true also when keepalived is dead.
configure_exporter() {
  local unit=prometheus-node-exporter.service
  if [[ ${METRICS:-false} != true ]]; then
    if [[ -e $EXPORTER_CFG ]] && systemctl is-enabled --quiet -- "$unit" 2>/dev/null; then
      step "node-exporter is not wanted any more"
      systemctl --quiet disable --now -- "$unit" || die "$unit cannot be stopped" "$unit"
    fi
    return 0
  fi
  # Not at first boot: nobody asks before the cluster is there.
  [[ -e $HERE/install/install.sh ]] || return 0
  step "node-exporter"
  bash "$HERE/install/install.sh" metrics || die "install.sh metrics failed"
  write_file "$EXPORTER_CFG" 0644 "# Written by openstack-kubernetes: changes are lost at the next run.
ARGS=\"--web.listen-address=$NODE_IP:9100 --collector.netdev.address-info --collector.systemd --collector.systemd.unit-include=(haproxy|keepalived).service\""
  systemctl is-enabled --quiet -- "$unit" || systemctl --quiet enable -- "$unit"
  if changed "$EXPORTER_CFG" || ! systemctl is-active --quiet -- "$unit"; then
    systemctl restart -- "$unit" || die "$unit does not start" "$unit"
  fi
}

# Asked every 20 minutes, at another minute on each gateway.
configure_reboots() {
  local unit=openstack-kubernetes-reboot
  if [[ -z ${REBOOT_START:-} ]]; then
    timer_remove "$unit"
    return
  fi
  # It comes with the first connection.
  [[ -e $HERE/gateway/gateway-reboot.sh ]] || return 0
  step "reboots"
  timer_apply "$unit" "[Unit]
Description=Reboot this gateway if an update asks for it

[Service]
Type=oneshot
ExecStart=/bin/bash $LIB_DIR/gateway/gateway-reboot.sh check" "[Unit]
Description=Reboots of this gateway

[Timer]
OnCalendar=*-*-* *:$(printf '%02d' $((own_index % 5 * 4)))/20:00 UTC
AccuracySec=1s

[Install]
WantedBy=timers.target"
}

require_root
load_env NODE_NAME NODE_IP API_NAME VIP VRRP_ID GATEWAY_ADDRESSES GATEWAY_PLACES CONTROL_PLANE_ADDRESSES
lock
case $VERB in
  configure) configure ;;
  *) die "usage: gateway.sh configure" ;;
esac
