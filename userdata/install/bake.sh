#!/usr/bin/env bash
# Turn a plain Debian 12/13 or Ubuntu 24.04 machine, or a chroot of one, into the node image.
#
#   KUBERNETES_VERSION=v1.36.3 bake.sh [FOLDER]
#
# Installs what install.sh installs (with its settings), preloads the container images of the
# archives FOLDER/*.tar when a folder is given, and removes what every machine makes anew. A machine
# made from the image still runs install.sh, which then finds everything in place. Run it last: on a
# running machine nothing of this machine's identity (host keys, machine-id, logs) is left.
set -Eeuo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-}

say() { printf 'bake: %s\n' "$*" >&2; }
fail() {
  printf 'bake: error: %s\n' "$*" >&2
  exit 1
}
trap 'fail "line ${LINENO} failed: ${BASH_COMMAND}"' ERR

install_everything() {
  say "install"
  # One image serves every role: `kubectl` brings keepalived for the gateways.
  export SECURITY_UPDATES=true
  bash "${here}/install.sh" kubectl
  bash "${here}/install.sh" metrics
  bash "${here}/install.sh" all
  # Their scripts configure and start them; a kubelet starts when its node has joined. On nodes,
  # the cluster has a node-exporter of its own.
  systemctl -q disable haproxy keepalived kubelet prometheus-node-exporter \
    openstack-kubernetes-updates.timer
}

# Import into containerd's store. In a chroot no containerd runs: start one for this only.
preload() {
  local archive socket=/run/containerd/containerd.sock pid='' scratch=''
  local archives=("${folder}"/*.tar)
  [ -f "${archives[0]}" ] || fail "no image archives (*.tar) in ${folder}"
  if [ ! -d /run/systemd/system ]; then
    scratch=$(mktemp -d)
    socket=${scratch}/containerd.sock
    containerd --address "${socket}" --state "${scratch}/state" --root /var/lib/containerd \
      --log-level warn &
    pid=$!
    # shellcheck disable=SC2064
    trap "kill ${pid} 2>/dev/null || true" EXIT
    for _ in {1..100}; do
      ctr --address "${socket}" version >/dev/null 2>&1 && break
      kill -0 "${pid}" 2>/dev/null || fail "containerd does not start: see the lines above"
      sleep 0.1
    done
  fi
  for archive in "${archives[@]}"; do
    say "preload ${archive##*/}"
    # The layers are kept unpacked only. The label keeps the kubelet from deleting the images when
    # the disk fills up.
    ctr --address "${socket}" -n k8s.io images import --local --discard-unpacked-layers \
      --label io.cri-containerd.pinned=pinned "${archive}" >/dev/null
  done
  if [ -n "${pid}" ]; then
    kill "${pid}"
    wait "${pid}" || true
    trap - EXIT
    rm -rf "${scratch}"
  fi
}

clean_up() {
  say "clean up"
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /tmp/* /var/tmp/* \
    /etc/ssh/ssh_host_*_key* /var/lib/cloud/* /var/lib/systemd/random-seed /var/lib/dhcp/*
  find /var/log -type f -exec truncate -s 0 {} +
  : >/etc/machine-id
  rm -f /var/lib/dbus/machine-id
}

main() {
  [ "$(id -u)" = 0 ] || fail "run this as root"
  [ -z "${folder}" ] || [ -d "${folder}" ] || fail "${folder} is not a folder"
  install_everything
  [ -z "${folder}" ] || preload
  clean_up
  say "done"
}

main
