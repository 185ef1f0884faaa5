#!/usr/bin/env bash
# Packages, programs and files that a machine of a cluster needs; does nothing when all is there.
#
#   install.sh kubectl    a gateway: HAProxy, keepalived, kubectl, and node-exporter if METRICS is `true`
#   install.sh metrics    node-exporter alone (for an image)
#   install.sh kubeadm    kubeadm alone, and containerd's settings (before an upgrade)
#   install.sh programs   kubeadm, kubelet and kubectl; the caller restarts the kubelet
#   install.sh all        a node: containerd, kubelet, kubeadm, kubectl, HAProxy, kernel settings
#   install.sh updates    the security updates of the distribution, now
#
# Debian 12 and 13, Ubuntu 24.04. Input, from node.env or, where there is none, the environment:
#   KUBERNETES_VERSION   for example v1.36.3
#   ARTIFACTS            a folder that is used before the network (air-gapped machines):
#                        <version>/{kubeadm,kubelet,kubectl}, <version>/images/*.tar,
#                        containerd/{containerd,containerd-shim-runc-v2,ctr}, crictl
#   IMAGE_REGISTRY       a mirror of kubeadm's own registry: where the pause image comes from
#   TIME_SERVERS         separated by spaces; default: those of the image
#   SECURITY_UPDATES     `true`: the distribution's security updates every night
#   KUBERNETES_PACKAGES, CONTAINERD_PACKAGES   mirrors of pkgs.k8s.io and download.docker.com
# In the same folder, where they exist: proxy.env, containerd/*.toml, containerd/certs.d/.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
source "$HERE/install/packages.sh"
source "$HERE/install/time.sh"
source "$HERE/install/updates.sh"
source "$HERE/install/containerd.sh"
source "$HERE/install/kubernetes.sh"
source "$HERE/install/kernel.sh"
source "$HERE/install/metadata.sh"
source "$HERE/install/exporter.sh"

# shellcheck disable=SC2034 # the files above use it
FILES=$HERE/install/files
GATEWAY_PACKAGES=(ca-certificates curl haproxy iproute2 keepalived openssl)
NODE_PACKAGES=(ca-certificates conntrack curl e2fsprogs ebtables ethtool haproxy iproute2
  ipset iptables kmod mount nftables openssl socat util-linux xfsprogs)

gateway() {
  want_packages "${GATEWAY_PACKAGES[@]}"
  configure_time_servers
  want_programs kubectl
  configure_updates
  configure_exporter
}

node() {
  want_packages "${NODE_PACKAGES[@]}"
  configure_time_servers
  want_containerd
  want_programs kubeadm kubelet kubectl
  want_crictl
  configure_kernel
  deny_metadata
  configure_containerd
  import_images
  configure_kubelet
  configure_updates
}

require_root
# shellcheck disable=SC2119 # no key must be there
[[ ! -r $FOLDER/node.env ]] || load_env
[[ ${KUBERNETES_VERSION:-} =~ ^v1\.[0-9]+\.[0-9]+$ ]] ||
  die "KUBERNETES_VERSION is '${KUBERNETES_VERSION:-}'; it must look like v1.36.3"
ARTIFACTS=${ARTIFACTS:-$ROOT/opt/openstack-kubernetes/artifacts}
remember_changes
mask_apt_daily
# Callers of the others hold the lock.
[[ $VERB == updates ]] || forget_repositories
case $VERB in
  kubectl) gateway ;;
  metrics) want_packages prometheus-node-exporter ;;
  kubeadm)
    want_programs kubeadm
    import_images
    # kubeadm pulls what is missing, perhaps by new mirrors or a new proxy.
    configure_containerd
    ;;
  programs) want_programs kubeadm kubelet kubectl ;;
  all) node ;;
  updates) update ;;
  *) die "usage: install.sh kubectl|metrics|kubeadm|programs|all|updates" ;;
esac
