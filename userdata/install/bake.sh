#!/usr/bin/env bash
# Turn a plain Debian 12/13 or Ubuntu 24.04 machine, or a chroot of one, into the node image.
#
#   KUBERNETES_VERSION=v1.36.3 bake.sh [FOLDER]
#
# Installs what install.sh installs (with its settings), preloads the container images of the
# archives FOLDER/*.tar when a folder is given, and removes what every machine makes for itself. A
# machine made from the image still runs install.sh, which then finds everything in place. Run it
# last: on a running machine nothing of this machine's identity (host keys, machine-id, logs) is
# left.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"

ARCHIVES=${1:-}

install_everything() {
  step "install"
  # One image serves every role: `kubectl` brings keepalived for the gateways.
  export SECURITY_UPDATES=true
  bash "$HERE/install/install.sh" kubectl
  bash "$HERE/install/install.sh" metrics
  bash "$HERE/install/install.sh" all
  # Their scripts configure and start them; a kubelet starts when its node has joined. On nodes,
  # the cluster has a node-exporter of its own.
  systemctl -q disable haproxy keepalived kubelet prometheus-node-exporter \
    openstack-kubernetes-updates.timer
}

# Import into containerd's store. In a chroot no containerd runs: start one for this only.
preload() {
  local archive socket=/run/containerd/containerd.sock scratch pid=''
  local -a archives=("$ARCHIVES"/*.tar)
  step "preload images"
  [[ -f ${archives[0]} ]] || die "no image archives (*.tar) in $ARCHIVES"
  if ! systemd_runs; then
    scratch=$(mktemp -d)
    socket=$scratch/containerd.sock
    containerd --address "$socket" --state "$scratch/state" --root /var/lib/containerd \
      --log-level warn &
    pid=$!
    at_exit "kill $pid 2>/dev/null; wait $pid; rm -rf -- '$scratch'"
    wait_for 10 "containerd" ctr --address "$socket" version >/dev/null 2>&1 ||
      die "containerd does not start: see the lines above"
  fi
  for archive in "${archives[@]}"; do
    log "preload ${archive##*/}"
    # The layers are kept unpacked only. The label keeps the kubelet from deleting the images when
    # the disk fills up.
    ctr --address "$socket" -n k8s.io images import --local --discard-unpacked-layers \
      --label io.cri-containerd.pinned=pinned "$archive" >/dev/null
  done
  if [[ -n $pid ]]; then
    kill "$pid"
    wait "$pid" || true
  fi
}

clean_up() {
  step "clean up"
  apt-get clean
  rm -rf -- "$ROOT"/var/lib/apt/lists/* "$ROOT"/var/cache/apt/*.bin "$ROOT/var/log/apt" \
    "$ROOT"/{tmp,var/tmp}/* "$ROOT"/etc/ssh/ssh_host_*_key* \
    "$ROOT"/var/lib/{cloud,dhcp}/* "$ROOT/var/lib/systemd/random-seed"
  find "$ROOT/var/log" -type f -exec truncate -s 0 {} +
  : >"$ROOT/etc/machine-id"
  rm -f -- "$ROOT/var/lib/dbus/machine-id"
  # Of who made the image: cloud-init would keep the key next to the cluster's.
  rm -f -- "$ROOT"/{root,home/*}/.ssh/authorized_keys "$ROOT"/{root,home/*}/.*_history
}

require_root
[[ -z $ARCHIVES || -d $ARCHIVES ]] || die "$ARCHIVES is not a folder"
install_everything
[[ -z $ARCHIVES ]] || preload
clean_up
log "done"
