#!/usr/bin/env bash
# The command line of etcdctl. Sourced, never run.

# etcdctl_command ARGUMENT...: sets `etcdctl`, for the member in whose container it will run.
etcdctl_command() {
  local pki=/etc/kubernetes/pki/etcd
  # shellcheck disable=SC2034 # the scripts that source this use it
  etcdctl=(etcdctl --endpoints="https://127.0.0.1:$ETCD_CLIENT_PORT" --cacert="$pki/ca.crt"
    --cert="$pki/healthcheck-client.crt" --key="$pki/healthcheck-client.key" "$@")
}

# find_etcd: sets `etcd` to the container of the one on this machine.
find_etcd() {
  etcd=$(container_of etcd) || die "crictl does not answer" containerd.service
  [[ -n $etcd ]] || die "no etcd runs on this machine" kubelet.service
}

# etcdctl_in CONTAINER ARGUMENT...: in an etcd of this machine. crictl would wait for ever.
etcdctl_in() {
  local -a etcdctl
  etcdctl_command "${@:2}"
  timeout --kill-after=30 "${COMMAND_TIMEOUT:-1800}" crictl exec "$1" "${etcdctl[@]}"
}
