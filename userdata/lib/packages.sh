#!/usr/bin/env bash
# Packages of the distribution. Sourced by lib.sh.

APT_UPDATED=false

# need_packages COMMAND=PACKAGE...: those whose command is missing.
need_packages() {
  local pair missing=()
  for pair; do
    command -v -- "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
  done
  ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
}

# apt_install [OPTION...] PACKAGE...
apt_install() {
  log "installing $*"
  wait_for_security_updates
  configure_interrupted
  "$APT_UPDATED" || apt_update
  apt_get install --no-install-recommends "$@" ||
    die "apt could not install $*: see the lines above"
}

# wait_for_security_updates: they hold dpkg's lock for longer than apt waits for it.
wait_for_security_updates() {
  local updates=$ROOT/run/lock/openstack-kubernetes-updates
  [[ -e $updates ]] || return 0
  flock --nonblock "$updates" true && return
  log "security updates are being installed: waiting for them"
  flock --timeout "${UPDATES_TIMEOUT:-1800}" "$updates" true ||
    die "the security updates did not end: journalctl -u openstack-kubernetes-updates"
}

# configure_interrupted: what a lost connection or a power cut has left; apt refuses all until then.
configure_interrupted() {
  compgen -G "$ROOT/var/lib/dpkg/updates/[0-9]*" >/dev/null || return 0
  # Where dpkg is at work instead, this fails, and apt waits.
  run env DEBIAN_FRONTEND=noninteractive dpkg --force-confold --configure -a || true
}

apt_update() {
  # What user_data runs has no such folder, and cloud-init waits for it.
  [[ ! -e $HERE/install/install.sh ]] || wait_for_first_boot
  # Its own status is 0 when nothing could be downloaded, and it waits for no other update.
  WAIT_PAUSE=${WAIT_PAUSE:-5} wait_for "${APT_TIMEOUT:-120}" "apt's package lists" \
    apt_get -o APT::Update::Error-Mode=any update ||
    die "apt cannot read its package lists: see the lines above; check DNS, the proxy and /etc/apt"
  APT_UPDATED=true
}

# Ubuntu's needrestart would restart HAProxy, containerd and others.
apt_get() {
  with_proxy run env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get --quiet --yes \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
    -o Dpkg::Options::=--force-confold "$@"
}

# with_proxy COMMAND...: for what is outside, where perhaps only the proxy leads.
with_proxy() (
  local line
  if [[ -r $FOLDER/proxy.env ]]; then
    # No shell script: systemd reads it too, and nothing in it is quoted.
    while IFS= read -r line; do
      [[ ! $line =~ ^[A-Z_]+= ]] || export "${line?}"
    done <"$FOLDER/proxy.env"
    # apt and curl look for the small ones.
    export http_proxy=${HTTP_PROXY:-} https_proxy=${HTTPS_PROXY:-} no_proxy=${NO_PROXY:-}
  fi
  "$@"
)
