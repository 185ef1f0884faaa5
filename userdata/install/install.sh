#!/usr/bin/env bash
# Install what a machine of a cluster needs: packages, programs and files. Nothing when all is there.
#
#   install.sh kubectl    a gateway: HAProxy, keepalived, kubectl
#   install.sh metrics    a gateway that Prometheus asks: node-exporter
#   install.sh kubeadm    kubeadm alone (before an upgrade)
#   install.sh all        a node: containerd, kubelet, kubeadm, kubectl, HAProxy, kernel settings
#   install.sh updates    the security updates of the distribution, now
#
# Debian 12 and 13, Ubuntu 24.04. Input, from node.env beside this script, from
# /etc/openstack-kubernetes/node.env or from the environment (which wins):
#   KUBERNETES_VERSION   for example v1.36.3
#   ARTIFACTS            a folder that is used before the network (air-gapped machines):
#                        <version>/{kubeadm,kubelet,kubectl}, <version>/images/*.tar,
#                        containerd/{containerd,containerd-shim-runc-v2,ctr}, crictl
#   IMAGE_REGISTRY       a mirror of kubeadm's own registry: where the pause image comes from
#   SECURITY_UPDATES     `true`: the distribution's security updates every night
#   KUBERNETES_PACKAGES, CONTAINERD_PACKAGES   mirrors of pkgs.k8s.io and download.docker.com
# Beside this script, when they exist: proxy.env, containerd/*.toml, containerd/certs.d/.
# shellcheck disable=SC1091
set -Eeuo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
settings=/etc/openstack-kubernetes
library=/usr/local/lib/openstack-kubernetes
state=/var/lib/openstack-kubernetes
containerd=/etc/containerd
packages=(ca-certificates conntrack curl e2fsprogs ebtables ethtool haproxy iproute2
  ipset iptables kmod mount nftables openssl socat util-linux xfsprogs)
gateway_packages=(ca-certificates curl haproxy iproute2 keepalived openssl)

say() { printf 'install: %s\n' "$*" >&2; }
fail() {
  printf 'install: error: %s\n' "$*" >&2
  exit 1
}
trap 'fail "line ${LINENO} failed: ${BASH_COMMAND}"' ERR

# systemd is not running in a chroot: units are enabled there, never started.
running() { [ -d /run/systemd/system ]; }

# Write standard input to a file; true when that changed it.
put() {
  local text
  text=$(cat && printf x)
  if [ -f "$1" ] && [ "$(cat "$1" && printf x)" = "${text}" ]; then
    return 1
  fi
  mkdir -p "$(dirname "$1")"
  printf '%s' "${text%x}" >"$1.new"
  mv "$1.new" "$1"
}

# must_restart UNIT: noted before what it reads is changed, so that a cut-off run forgets nothing.
must_restart() {
  mkdir -p "${state}"
  : >"${state}/restart-$1"
}

# --- settings -----------------------------------------------------------------------------------

# What an earlier folder brought and this one has no more goes; what came otherwise, with the image
# for example, stays.
drop_old_files() {
  local list=${state}/brought now file
  [ -f "${here}/node.env" ] || [ "${here}" = "${library}" ] || return 0
  now=$(cd "${here}" && shopt -s nullglob &&
    printf '%s\n' containerd/*.toml containerd/certs.d/*/hosts.toml proxy.en[v])
  if [ -f "${list}" ]; then
    while read -r file; do
      if [ -z "${file}" ] || grep -qxF -- "${file}" <<<"${now}"; then continue; fi
      say "no ${file} any more"
      must_restart containerd
      case ${file} in
        proxy.env) rm -f "${settings}/proxy.env" ;;
        containerd/certs.d/*) rm -f "${containerd}/${file#containerd/}" ;;
        *) rm -f "${containerd}/conf.d/${file#containerd/}" ;;
      esac
    done <"${list}"
  fi
  put "${list}" <<<"${now}" || true
}

load_settings() {
  local given_version=${KUBERNETES_VERSION:-} given_artifacts=${ARTIFACTS:-} file
  for file in "${here}/node.env" "${settings}/node.env"; do
    if [ -f "${file}" ]; then
      # shellcheck source=/dev/null
      . "${file}"
      break
    fi
  done
  version=${given_version:-${KUBERNETES_VERSION:-}}
  artifacts=${given_artifacts:-${ARTIFACTS:-/opt/openstack-kubernetes/artifacts}}
  [[ ${version} =~ ^v1\.[0-9]+\.[0-9]+$ ]] ||
    fail "KUBERNETES_VERSION is '${version}'; it must look like v1.36.3"
  if [ -f "${here}/proxy.env" ] && ! cmp -s "${here}/proxy.env" "${settings}/proxy.env"; then
    must_restart containerd
    # A proxy's URL may hold a password.
    (umask 077 && put "${settings}/proxy.env" <"${here}/proxy.env") || true
  fi
  if [ -f "${settings}/proxy.env" ]; then
    chmod 0600 "${settings}/proxy.env"
    set -a
    # shellcheck source=/dev/null
    . "${settings}/proxy.env"
    set +a
    export http_proxy=${HTTP_PROXY:-} https_proxy=${HTTPS_PROXY:-} no_proxy=${NO_PROXY:-}
  fi
}

# --- packages -----------------------------------------------------------------------------------

# apt-daily holds dpkg's lock for minutes on a machine's first boot, and its upgrades would restart
# containerd whenever they like.
mask_apt_daily() {
  local unit
  for unit in apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service; do
    [ -L "/etc/systemd/system/${unit}" ] && continue
    ln -sf /dev/null "/etc/systemd/system/${unit}"
    if running; then
      systemctl stop "${unit}" 2>/dev/null || true
      reload=true
    fi
  done
}

# Security updates by a timer of our own: apt-daily would not wait for anybody. Only what the
# distribution calls security comes in, so neither containerd.io nor Kubernetes' packages do. Nodes
# take their turn within four hours, gateways each in an hour of its own: a new HAProxy restarts.
configure_updates() {
  local unit=openstack-kubernetes-updates at=00:00 spread=4h index=0 address
  if [ "${SECURITY_UPDATES:-}" != true ]; then
    [ -f "/etc/systemd/system/${unit}.timer" ] || return 0
    say "no security updates any more"
    systemctl -q disable "${unit}.timer"
    ! running || systemctl stop "${unit}.timer"
    rm -f "/etc/systemd/system/${unit}.timer" "/etc/systemd/system/${unit}.service"
    reload=true
    reload_systemd
    return 0
  fi
  want_packages unattended-upgrades
  if [ "${ROLE:-}" = gateway ]; then
    for address in ${GATEWAY_ADDRESSES:-}; do
      [ "${address}" != "${NODE_IP:-}" ] || at=$(printf '%02d:00' "${index}")
      index=$((index + 1))
    done
    spread=30m
  fi
  put /etc/apt/apt.conf.d/52openstack-kubernetes <<'CONF' || true
// Written by install.sh of openstack-kubernetes: changes are lost at the next run.
#clear Unattended-Upgrade::Origins-Pattern;
#clear Unattended-Upgrade::Allowed-Origins;
Unattended-Upgrade::Origins-Pattern {
  "origin=Debian,codename=${distro_codename}-security,label=Debian-Security";
  "origin=Ubuntu,archive=${distro_codename}-security,label=Ubuntu";
};
Unattended-Upgrade::Remove-Unused-Kernel-Packages "true";
// Who reboots, and when, is decided elsewhere.
Unattended-Upgrade::Automatic-Reboot "false";
CONF
  put "/etc/systemd/system/${unit}.service" <<'UNIT' && reload=true
[Unit]
Description=Security updates of the distribution
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/bin/bash /usr/local/lib/openstack-kubernetes/install/install.sh updates
UNIT
  put "/etc/systemd/system/${unit}.timer" <<UNIT && reload=true
[Unit]
Description=Security updates of the distribution

[Timer]
OnCalendar=*-*-* ${at}:00 UTC
RandomizedDelaySec=${spread}
FixedRandomDelay=true

[Install]
WantedBy=timers.target
UNIT
  local again=${reload}
  reload_systemd
  [ -e "/etc/systemd/system/timers.target.wants/${unit}.timer" ] || systemctl -q enable "${unit}.timer"
  if running && { "${again}" || ! systemctl -q is-active "${unit}.timer"; }; then
    systemctl restart "${unit}.timer"
  fi
}

# What the timer runs. needrestart must not restart containerd or the kubelet.
update() {
  apt update || fail "apt cannot read its package lists: see the lines above"
  NEEDRESTART_SUSPEND=1 unattended-upgrade --verbose ||
    fail "unattended-upgrade failed: see /var/log/unattended-upgrades"
}

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    -o Acquire::Retries=3 -o Dpkg::Options::=--force-confold "$@" >&2
}

apt_updated=false
apt_install() {
  if ! "${apt_updated}"; then
    apt update || fail "apt cannot read its package lists: see the lines above; check DNS, the proxy and /etc/apt"
    apt_updated=true
  fi
  apt install --no-install-recommends --allow-downgrades --allow-change-held-packages "$@" ||
    fail "apt could not install $*: see the lines above"
}

# Install those of the packages that are missing.
want_packages() {
  local installed missing=() package
  # shellcheck disable=SC2016
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qx "installed ${package}" <<<"${installed}" || missing+=("${package}")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    say "packages: ${missing[*]}"
    apt_install "${missing[@]}"
  fi
}

# want_repository NAME KEY-URL LINE: a package source with its own signing key.
want_repository() {
  local key=/etc/apt/keyrings/$1.asc
  want_packages ca-certificates curl
  if [ ! -s "${key}" ]; then
    mkdir -p /etc/apt/keyrings
    curl -fsSL --retry 5 --retry-connrefused -o "${key}.new" "$2" ||
      fail "cannot download the signing key $2; without internet put the programs into ${artifacts}"
    mv "${key}.new" "${key}"
  fi
  if put "/etc/apt/sources.list.d/$1.list" <<<"deb [signed-by=${key}] $3"; then
    apt_updated=false
  fi
}

# --- containerd ---------------------------------------------------------------------------------

want_containerd() {
  if [[ $(containerd --version 2>/dev/null || true) != *" v2."* ]]; then
    if [ -x "${artifacts}/containerd/containerd" ]; then
      say "containerd from ${artifacts}"
      want_packages runc
      install -m 0755 "${artifacts}"/containerd/* /usr/bin/
    else
      local id codename
      id=$(. /etc/os-release && echo "${ID}")
      codename=$(. /etc/os-release && echo "${VERSION_CODENAME}")
      local from=${CONTAINERD_PACKAGES:-https://download.docker.com/linux/${id}}
      want_repository docker "${from}/gpg" "${from} ${codename} stable"
      # Distributions have 1.7, too old for the Kubernetes releases to come.
      want_packages containerd.io
      apt-mark hold containerd.io >/dev/null
    fi
  fi
  if [ ! -f /usr/lib/systemd/system/containerd.service ]; then
    put /etc/systemd/system/containerd.service <<'UNIT' && reload=true
[Unit]
Description=containerd container runtime
After=network.target local-fs.target

[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
UNIT
  fi
  if [ ! -e /opt/cni/bin/loopback ]; then
    want_packages containernetworking-plugins
    mkdir -p /opt/cni/bin
    cp -lu /usr/lib/cni/* /opt/cni/bin/
  fi
}

# The kubelet's own images must stay the ones that kubeadm's upgrade check asks for.
sandbox_image() {
  kubeadm config images list --kubernetes-version "${version}" \
    ${IMAGE_REGISTRY:+--image-repository "${IMAGE_REGISTRY}"} | grep /pause:
}

configure_containerd() {
  local changed=false systemd_cgroup=false sandbox
  [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] && systemd_cgroup=true
  sandbox=$(sandbox_image)
  [ ! -e "${state}/restart-containerd" ] || changed=true
  must_restart containerd
  put "${containerd}/config.toml" <<TOML && changed=true
# Written by install.sh of openstack-kubernetes; put changes into /etc/containerd/conf.d/*.toml.
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "${sandbox}"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = ${systemd_cgroup}
TOML
  mkdir -p "${containerd}/conf.d" "${containerd}/certs.d"
  local file
  for file in "${here}"/containerd/*.toml; do
    [ -f "${file}" ] || continue
    put "${containerd}/conf.d/${file##*/}" <"${file}" && changed=true
  done
  for file in "${here}"/containerd/certs.d/*/hosts.toml; do
    [ -f "${file}" ] || continue
    put "${containerd}/${file#"${here}/containerd/"}" <"${file}" || true
  done
  put /etc/crictl.yaml <<<'runtime-endpoint: unix:///run/containerd/containerd.sock' || true
  if [ -f "${settings}/proxy.env" ]; then
    for file in containerd kubelet; do
      put "/etc/systemd/system/${file}.service.d/50-proxy.conf" <<CONF && changed=true reload=true
[Service]
EnvironmentFile=-${settings}/proxy.env
CONF
    done
  fi
  reload_systemd
  enable containerd
  if running && { "${changed}" || ! systemctl -q is-active containerd; }; then
    say "start containerd"
    systemctl restart containerd ||
      fail "containerd does not start: see 'journalctl -u containerd' and /etc/containerd"
  fi
  rm -f "${state}/restart-containerd"
}

# Images that came along with the programs, for machines that reach no registry.
import_images() {
  local archive mark=${state}/imported
  running || return 0
  for archive in "${artifacts}/${version}"/images/*.tar; do
    [ -f "${archive}" ] || continue
    [ -f "${mark}/${archive##*/}" ] && [ ! "${archive}" -nt "${mark}/${archive##*/}" ] && continue
    say "import ${archive}"
    ctr -n k8s.io images import --local --label io.cri-containerd.pinned=pinned "${archive}" >/dev/null ||
      fail "cannot import the container images in ${archive}"
    mkdir -p "${mark}"
    touch "${mark}/${archive##*/}"
  done
}

# --- Kubernetes ---------------------------------------------------------------------------------

installed_version() {
  case $1 in
    kubeadm) kubeadm version -o short ;;
    kubelet) kubelet --version | cut -d' ' -f2 ;;
    kubectl) kubectl version --client | sed -n 's/^Client Version: //p' ;;
  esac 2>/dev/null || true
}

# Bring the programs to the wanted version.
want_programs() {
  local program wrong=()
  for program in "$@"; do
    if [ ! -x "/usr/bin/${program}" ] || [ "$(installed_version "${program}")" != "${version}" ]; then
      wrong+=("${program}")
    fi
  done
  [ "${#wrong[@]}" -gt 0 ] || return 0
  say "${wrong[*]} ${version}"
  [[ " ${wrong[*]} " != *" kubelet "* ]] || must_restart kubelet
  for program in "${wrong[@]}"; do
    [ -x "${artifacts}/${version}/${program}" ] || break
    # Beside the old one, then renamed: a running kubelet keeps the file it was started from.
    install -m 0755 "${artifacts}/${version}/${program}" "/usr/bin/.${program}.new"
    mv "/usr/bin/.${program}.new" "/usr/bin/${program}"
    wrong=("${wrong[@]:1}")
  done
  [ "${#wrong[@]}" -gt 0 ] || return 0
  local from=${KUBERNETES_PACKAGES:-https://pkgs.k8s.io/core:/stable:}/${version%.*}/deb
  want_repository kubernetes "${from}/Release.key" "${from}/ /"
  apt_install "${wrong[@]/%/=${version#v}-*}"
  apt-mark hold "${wrong[@]}" >/dev/null
}

want_kubelet_unit() {
  if [ ! -f /usr/lib/systemd/system/kubelet.service ]; then
    put /etc/systemd/system/kubelet.service <<'UNIT' && reload=true
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target containerd.service

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=2

[Install]
WantedBy=multi-user.target
UNIT
    put /etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'UNIT' && reload=true
# What kubeadm init, join and upgrade write is read by these variables.
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--configure-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
UNIT
  fi
  reload_systemd
  enable kubelet
  # Only a node that has joined has a kubelet to restart; before that kubeadm starts it.
  if running && [ -e "${state}/restart-kubelet" ] && [ -f /var/lib/kubelet/config.yaml ]; then
    systemctl restart kubelet || fail "the kubelet does not start: see 'journalctl -u kubelet'"
  fi
  rm -f "${state}/restart-kubelet"
}

# --- kernel -------------------------------------------------------------------------------------

configure_kernel() {
  local module missing=()
  put /etc/modules-load.d/openstack-kubernetes.conf <<<$'overlay\nbr_netfilter' || true
  if put /etc/sysctl.d/80-openstack-kubernetes.conf <<'CONF'; then
# A key after "-" may be missing: br_netfilter is not in every kernel.
net.ipv4.ip_forward = 1
-net.bridge.bridge-nf-call-iptables = 1
-net.bridge.bridge-nf-call-ip6tables = 1
-fs.inotify.max_user_instances = 8192
-fs.inotify.max_user_watches = 524288
CONF
    running || return 0
    for module in overlay br_netfilter; do
      modprobe -q "${module}" 2>/dev/null || missing+=("${module}")
    done
    [ "${#missing[@]}" -eq 0 ] || say "not loaded (built in, or not there): ${missing[*]}"
    sysctl -q -p /etc/sysctl.d/80-openstack-kubernetes.conf 2>/dev/null || true
  fi
  if running && [ "$(cat /proc/sys/net/ipv4/ip_forward)" != 1 ]; then
    echo 1 >/proc/sys/net/ipv4/ip_forward
  fi
}

# --- metadata service ---------------------------------------------------------------------------

# What pods send to the cloud's metadata service ends here, whatever the pod network is: its packets
# come in from an interface. Those of the machine itself, and of pods in its network, do not.
# A table of its own: what others do to theirs leaves it alone.
deny_metadata() {
  local changed=false unit=openstack-kubernetes-metadata
  put "${settings}/metadata.nft" <<'NFT' && changed=true
table ip openstack-kubernetes
delete table ip openstack-kubernetes
table ip openstack-kubernetes {
  chain pods {
    type filter hook prerouting priority raw; policy accept;
    iifname != "lo" ip daddr 169.254.169.254 counter drop
  }
}
NFT
  put "/etc/systemd/system/${unit}.service" <<UNIT && changed=true reload=true
[Unit]
Description=Keep pods from the cloud's metadata service
After=nftables.service
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=nft -f ${settings}/metadata.nft

[Install]
WantedBy=multi-user.target
UNIT
  reload_systemd
  enable "${unit}"
  if running && { "${changed}" || ! nft list table ip openstack-kubernetes >/dev/null 2>&1; }; then
    systemctl restart "${unit}" ||
      fail "pods cannot be kept from the metadata service: see 'journalctl -u ${unit}'"
  fi
}

# --- units --------------------------------------------------------------------------------------

reload=false
reload_systemd() {
  if "${reload}" && running; then
    systemctl daemon-reload
  fi
  reload=false
}

enable() {
  [ -e "/etc/systemd/system/multi-user.target.wants/$1.service" ] || systemctl -q enable "$1"
}

# ------------------------------------------------------------------------------------------------

main() {
  [ "$(id -u)" = 0 ] || fail "run this as root"
  case ${1:-all} in all | kubeadm) drop_old_files ;; esac
  load_settings
  mask_apt_daily
  case ${1:-all} in
    kubectl)
      want_packages "${gateway_packages[@]}"
      want_programs kubectl
      configure_updates
      ;;
    metrics) want_packages prometheus-node-exporter ;;
    kubeadm)
      want_programs kubeadm
      import_images
      ;;
    all)
      want_packages "${packages[@]}"
      want_containerd
      want_programs kubeadm kubelet kubectl
      if [ -x "${artifacts}/crictl" ] && [ ! -e /usr/bin/crictl ]; then
        install -m 0755 "${artifacts}/crictl" /usr/bin/crictl
      fi
      configure_kernel
      deny_metadata
      configure_containerd
      import_images
      want_kubelet_unit
      configure_updates
      ;;
    updates) update ;;
    *) fail "unknown verb '$1': use kubectl, metrics, kubeadm, all or updates" ;;
  esac
}

main "$@"
