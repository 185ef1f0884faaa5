#!/usr/bin/env bash
# kubeadm, kubelet and kubectl at the wanted version, and the kubelet's unit. Sourced by install.sh.

want_programs() {
  local program path from
  local -a wrong=() missing=()
  for program; do
    path=$ROOT/usr/bin/$program
    [[ -x $path && $(version_of "$program") == "$KUBERNETES_VERSION" ]] || wrong+=("$program")
  done
  ((${#wrong[@]})) || return 0
  step "${wrong[*]} $KUBERNETES_VERSION"
  for program in "${wrong[@]}"; do
    path=$ROOT/usr/bin/$program
    note_change "$path"
    if [[ -x $ARTIFACTS/$KUBERNETES_VERSION/$program ]]; then
      # Renamed over the old one: a running kubelet keeps the file it was started from.
      install -m 0755 "$ARTIFACTS/$KUBERNETES_VERSION/$program" "${path%/*}/.$program.new"
      mv -- "${path%/*}/.$program.new" "$path"
    else
      missing+=("$program")
    fi
  done
  ((${#missing[@]})) || return 0
  from=${KUBERNETES_PACKAGES:-https://pkgs.k8s.io/core:/stable:}/${KUBERNETES_VERSION%.*}/deb
  want_repository kubernetes "$from/Release.key" "$from/ /"
  want_pinned "${missing[@]/%/=${KUBERNETES_VERSION#v}-*}"
}

version_of() {
  case $1 in
    kubeadm) kubeadm version -o short ;;
    kubelet) kubelet --version | cut -d ' ' -f 2 ;;
    kubectl) kubectl version --client | sed -n 's/^Client Version: //p' ;;
  esac 2>/dev/null || true # it may be broken
}

configure_kubelet() {
  local unit=$UNIT_DIR/kubelet.service drop_in=$UNIT_DIR/kubelet.service.d/10-kubeadm.conf
  step "the kubelet's unit"
  if [[ ! -f $ROOT/usr/lib/systemd/system/kubelet.service ]]; then
    copy_file "$FILES/kubelet.service" "$unit" 0600
    copy_file "$FILES/10-kubeadm.conf" "$drop_in" 0600
  else
    chmod 0600 -- "$ROOT"/usr/lib/systemd/system/kubelet.service{,.d/10-kubeadm.conf}
  fi
  read_units "$unit" "$drop_in"
  unit_enable kubelet.service
  # Only a node that has joined has a kubelet to restart; before that kubeadm starts it.
  if systemd_runs && [[ -f $ROOT/var/lib/kubelet/config.yaml ]] &&
    changed "$ROOT/usr/bin/kubelet" "$unit" "$drop_in" "$(proxy_of kubelet)" "$PROXY_ENV"; then
    systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  fi
}
