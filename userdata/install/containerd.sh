#!/usr/bin/env bash
# containerd with its settings, mirrors and proxy, and the images that came along. Sourced by
# install.sh.

CONTAINERD_DIR=$ROOT/etc/containerd
# A proxy's URL may hold a password, and everyone may read a unit's settings.
PROXY_ENV=$ROOT/etc/default/openstack-kubernetes-proxy
# The settings that the last folder brought, one a line.
BROUGHT=$STATE_DIR/brought

want_containerd() {
  local id codename from
  local program=$ROOT/usr/bin/containerd
  # An interrupted run may have put only some of the programs in place.
  if [[ $(containerd --version 2>/dev/null || true) != *" v2."* ]] || changed "$program"; then
    step "containerd"
    note_change "$program"
    if [[ -x $ARTIFACTS/containerd/containerd ]]; then
      log "from $ARTIFACTS"
      want_packages runc
      install -m 0755 "$ARTIFACTS"/containerd/* "$ROOT/usr/bin/"
    else
      # shellcheck source=/dev/null
      id=$(source "$ROOT/etc/os-release" && echo "$ID")
      # shellcheck source=/dev/null
      codename=$(source "$ROOT/etc/os-release" && echo "$VERSION_CODENAME")
      from=${CONTAINERD_PACKAGES:-https://download.docker.com/linux/$id}
      want_repository docker "$from/gpg" "$from $codename stable"
      # Distributions have 1.7, too old for the Kubernetes releases to come.
      want_pinned containerd.io
    fi
  fi
  if [[ ! -f $ROOT/usr/lib/systemd/system/containerd.service ]]; then
    copy_file "$FILES/containerd.service" "$UNIT_DIR/containerd.service" 0644
  fi
  if [[ ! -e $ROOT/opt/cni/bin/loopback ]]; then
    want_packages containernetworking-plugins
    mkdir -p -- "$ROOT/opt/cni/bin"
    cp -lu "$ROOT"/usr/lib/cni/* "$ROOT/opt/cni/bin/"
  fi
}

want_crictl() {
  [[ -x $ARTIFACTS/crictl && ! -e $ROOT/usr/bin/crictl ]] || return 0
  install -m 0755 "$ARTIFACTS/crictl" "$ROOT/usr/bin/crictl"
}

# The kubelet's own images must stay the ones that kubeadm's upgrade check asks for.
sandbox_image() {
  kubeadm config images list --kubernetes-version "$KUBERNETES_VERSION" \
    ${IMAGE_REGISTRY:+--image-repository "$IMAGE_REGISTRY"} | grep /pause:
}

configure_containerd() {
  local config sandbox systemd_cgroup=false unit=$UNIT_DIR/containerd.service
  step "containerd's configuration"
  [[ $(stat -f -c %T "$ROOT/sys/fs/cgroup") != cgroup2fs ]] || systemd_cgroup=true
  sandbox=$(sandbox_image)
  config=$(render "$FILES/containerd.toml" SANDBOX="$sandbox" SYSTEMD_CGROUP="$systemd_cgroup")
  write_file "$CONTAINERD_DIR/config.toml" 0644 "$config"
  copy_file "$FILES/crictl.yaml" "$ROOT/etc/crictl.yaml" 0644
  mkdir -p -- "$CONTAINERD_DIR/conf.d" "$CONTAINERD_DIR/certs.d"
  take_settings
  configure_proxy
  read_units "$unit" "$(proxy_of containerd)" "$(proxy_of kubelet)"
  unit_apply_restart containerd.service "$ROOT/usr/bin/containerd" "$unit" \
    "$CONTAINERD_DIR/config.toml" "$CONTAINERD_DIR/conf.d" "$(proxy_of containerd)" "$PROXY_ENV"
  settings_taken
}

# What an earlier folder brought and this one no longer has goes; what came otherwise, with the
# image for example, stays.
take_settings() {
  local old='' file place
  [[ -e $FOLDER/node.env ]] || return 0
  [[ ! -e $BROUGHT ]] || old=$(<"$BROUGHT")
  # Both, until all is in force: this run may be interrupted.
  write_file "$BROUGHT" 0644 "$(printf '%s\n' "$old" "$(settings_of_install "$FOLDER")" | sort -u)"
  while read -r file; do
    [[ -n $file ]] || continue
    place=$(place_of "$file")
    # Mirrors are read each time, the other drop-ins at start.
    [[ $place != */conf.d/* ]] || cmp -s -- "$FOLDER/$file" "$place" || note_change "${place%/*}"
    if [[ -e $FOLDER/$file ]]; then
      copy_file "$FOLDER/$file" "$place" 0600
    else
      log "removing $place: it is no longer in the settings"
      note_change "$place"
      rm -f -- "$place"
    fi
  done <"$BROUGHT"
}

settings_taken() {
  [[ ! -e $FOLDER/node.env ]] || write_file "$BROUGHT" 0644 "$(settings_of_install "$FOLDER")"
}

place_of() {
  case $1 in
    proxy.env) printf '%s' "$PROXY_ENV" ;;
    containerd/certs.d/*) printf '%s' "$CONTAINERD_DIR/${1#containerd/}" ;;
    *) printf '%s' "$CONTAINERD_DIR/conf.d/${1#containerd/}" ;;
  esac
}

configure_proxy() {
  local text unit
  [[ -e $PROXY_ENV ]] || return 0
  text=$(render "$FILES/50-proxy.conf" PROXY="$PROXY_ENV")
  for unit in containerd kubelet; do
    write_file "$(proxy_of "$unit")" 0644 "$text"
  done
}

# proxy_of UNIT: its drop-in.
proxy_of() {
  printf '%s' "$UNIT_DIR/$1.service.d/50-proxy.conf"
}

# Images that came along with the programs, for machines that reach no registry.
import_images() {
  local archive mark=$STATE_DIR/imported
  systemd_runs || return 0
  for archive in "$ARTIFACTS/$KUBERNETES_VERSION"/images/*.tar; do
    [[ -f $archive ]] || continue
    [[ ! -f $mark/${archive##*/} || $archive -nt $mark/${archive##*/} ]] || continue
    log "importing the images in $archive"
    ctr -n k8s.io images import --local --label io.cri-containerd.pinned=pinned "$archive" >/dev/null ||
      die "the container images in $archive cannot be imported" containerd.service
    mkdir -p -- "$mark"
    touch -- "$mark/${archive##*/}"
  done
}
