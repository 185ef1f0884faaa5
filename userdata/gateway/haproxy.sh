#!/usr/bin/env bash
# HAProxy of a gateway: the API, ingress, object store, SSH, its status. Sourced by gateway.sh.

configure_haproxy() {
  step "HAProxy"
  local config
  config=$(
    haproxy_base 'fd-hard-limit 50000'
    # Without the CA there is no cluster yet: SSH is all that is needed then.
    [[ ! -s $FOLDER/ca.crt ]] ||
      haproxy_api 'inter 500ms fastinter 200ms downinter 500ms fall 2 rise 1' \
        "$VIP:$API_PORT" "127.0.0.1:$API_PORT" "127.0.0.1:$LOCAL_API_PORT"
    haproxy_status
    local proxy=''
    [[ ${INGRESS_PROXY_PROTOCOL:-false} != true ]] || proxy=' send-proxy-v2 check-send-proxy'
    haproxy_node_port ingress-http "$HTTP_PORT" "$INGRESS_HTTP_PORT" "$proxy"
    haproxy_node_port ingress-https "$HTTPS_PORT" "$INGRESS_HTTPS_PORT" "$proxy"
    [[ -z ${OBJECT_STORE_PORT:-} ]] ||
      haproxy_node_port object-store "$OBJECT_STORE_PORT" "$OBJECT_STORE_NODE_PORT"
    haproxy_ssh
  )
  haproxy_apply "$config"
}

# Whether this gateway's HAProxy is alive, and at the VIP that of the active one, for the other
# gateways; its metrics, for Prometheus.
haproxy_status() {
  cat <<EOT

frontend status
  mode http
  bind $NODE_IP:$GATEWAY_STATUS_PORT
  bind $VIP:$GATEWAY_STATUS_PORT
  http-request return status 200 content-type text/plain string ok if { path /healthz }
EOT
  [[ ${METRICS:-false} != true ]] ||
    printf '  http-request use-service prometheus-exporter if { path /metrics }\n'
  printf '  http-request return status 404\n'
}

# haproxy_node_port NAME PORT NODE_PORT [OPTIONS]: a node port of all control planes. Of HAProxy's 24900
# connections, users leave some to the API, SSH and keepalived's checks.
haproxy_node_port() {
  local name=$1 port=$2 node_port=$3 options=${4:-} address
  cat <<EOT

listen $name
  bind $VIP:$port
  maxconn 7000
  balance leastconn
  default-server check inter 2s fastinter 500ms downinter 1s fall 2 rise 1$options
EOT
  for address in $CONTROL_PLANE_ADDRESSES; do
    printf '  server %s %s:%s\n' "$address" "$address" "$node_port"
  done
}

# At the floating IP each gateway has a port for SSH.
haproxy_ssh() {
  local address index=0
  for address in $GATEWAY_ADDRESSES; do
    cat <<EOT

listen ssh-$index
  bind $VIP:$((FIRST_GATEWAY_SSH_PORT + index))
  server gateway-$index $address:22
EOT
    index=$((index + 1))
  done
}
