#!/usr/bin/env bash
# A control plane. None is special: the first one that ever ran can be lost like any other.
#
#   control-plane.sh prepare        on a new machine: the programs and container images that it will need
#   control-plane.sh configure      joins the cluster if it answers, initializes it if none exists and
#                                   this machine may; on a member, applies what changed
#   control-plane.sh alone          when the others are lost for good: etcd continues with this member
#   control-plane.sh adopt [FOLDER] when all are lost, on the new first one: the next configure
#                                   continues from etcd's data on the volume, or in a folder next to it
#   control-plane.sh renew          renews kubeadm's certificates that are due (its timer runs this)
#   control-plane.sh approve        approves the kubelets' serving certificates (the same timer)
#   control-plane.sh defragment     gives free space of etcd's database back, if it pays (its timer runs
#                                   this)
#   control-plane.sh encrypt STEP NAME...
#                                   a step of cluster/encryption-key.sh
#   control-plane.sh providers      prints what its file for the API server reads Secrets with
#   control-plane.sh service-account STEP KEY...
#                                   a step of cluster/service-account-key.sh
#   control-plane.sh pod-tokens replace|wait KEY...
#                                   another one
#   control-plane.sh authorities STEP
#                                   a step of cluster/certificate-authorities.sh
#   control-plane.sh state          prints "joined" or "new"
#   control-plane.sh reset          removes everything of the cluster from the machine, etcd data too
#   control-plane.sh mount          mounts the etcd volume (its unit runs this at boot)

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/haproxy.sh
source "$HERE/lib/haproxy.sh"
# shellcheck source-path=SCRIPTDIR source=../node/api-proxy.sh
source "$HERE/node/api-proxy.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/nodes.sh
source "$HERE/cluster/nodes.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/registration.sh
source "$HERE/cluster/registration.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kured.sh
source "$HERE/cluster/kured.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/tokens.sh
source "$HERE/cluster/tokens.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcdctl.sh
source "$HERE/cluster/etcdctl.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/etcd-members.sh
source "$HERE/cluster/etcd-members.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/requests.sh
source "$HERE/cluster/requests.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/client-certificates.sh
source "$HERE/cluster/client-certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/serving-certificates.sh
source "$HERE/cluster/serving-certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/token-keys.sh
source "$HERE/cluster/token-keys.sh"
# shellcheck source-path=SCRIPTDIR source=../node/clock.sh
source "$HERE/node/clock.sh"
# shellcheck source-path=SCRIPTDIR source=../node/authorities.sh
source "$HERE/node/authorities.sh"
# shellcheck source-path=SCRIPTDIR source=../node/kubelet-certificates.sh
source "$HERE/node/kubelet-certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../node/node.sh
source "$HERE/node/node.sh"
# shellcheck source-path=SCRIPTDIR source=../node/pod-tokens.sh
source "$HERE/node/pod-tokens.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/bucket.sh
source "$HERE/backup/bucket.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/encryption.sh
source "$HERE/backup/encryption.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/room.sh
source "$HERE/backup/room.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/order.sh
source "$HERE/backup/order.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/etcd-volume.sh
source "$HERE/control-plane/etcd-volume.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/etcd-data.sh
source "$HERE/control-plane/etcd-data.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/etcdutl.sh
source "$HERE/control-plane/etcdutl.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/restore.sh
source "$HERE/control-plane/restore.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/adopt.sh
source "$HERE/control-plane/adopt.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/alone.sh
source "$HERE/control-plane/alone.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/others.sh
source "$HERE/control-plane/others.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/secret-encryption.sh
source "$HERE/control-plane/secret-encryption.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/service-account-key.sh
source "$HERE/control-plane/service-account-key.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/kubernetes-files.sh
source "$HERE/control-plane/kubernetes-files.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/authorities.sh
source "$HERE/control-plane/authorities.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/static-pods.sh
source "$HERE/control-plane/static-pods.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/turn.sh
source "$HERE/control-plane/turn.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/certificates.sh
source "$HERE/control-plane/certificates.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/api-server-certificate.sh
source "$HERE/control-plane/api-server-certificate.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/kubelet-certificate.sh
source "$HERE/control-plane/kubelet-certificate.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/renew.sh
source "$HERE/control-plane/renew.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/kube-proxy.sh
source "$HERE/control-plane/kube-proxy.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/images.sh
source "$HERE/control-plane/images.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/kubeadm-config.sh
source "$HERE/control-plane/kubeadm-config.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/coredns.sh
source "$HERE/control-plane/coredns.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/initialize.sh
source "$HERE/control-plane/initialize.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/join.sh
source "$HERE/control-plane/join.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/upgrade.sh
source "$HERE/control-plane/upgrade.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/member.sh
source "$HERE/control-plane/member.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/enter.sh
source "$HERE/control-plane/enter.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/backups.sh
source "$HERE/control-plane/backups.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/defragment.sh
source "$HERE/control-plane/defragment.sh"

FILES=$HERE/control-plane/files

# All new machines do this at the same time, while the first one begins the cluster.
prepare() {
  if is_member || was_interrupted; then
    log "this machine has been in a cluster: there is nothing to prepare"
    return
  fi
  install_programs
  pull_images
}

configure() {
  step "check what is here"
  local file
  for file in ca.crt kubeconfig kubeadm-init.yaml kubeadm-join.yaml encryption.yaml pki/ca.crt pki/ca.key \
    service-account/1.key service-account/1.pub; do
    [[ -s $FOLDER/$file ]] || die "$FOLDER has no $file"
  done
  refuse_lost_etcd_volume
  refuse_foreign_cluster
  drop_one_time_host_key
  ! is_member || start_kubelet
  if is_member && ! was_removed; then
    wait_for_turn "pulumi up"
    configure_member
  else
    install_programs
    configure_api_proxy
    install_scripts
    prepare_etcd_volume
    enter_cluster
  fi
  complete_certificates
  end_auto_approval
  configure_coredns
  configure_certificates
  configure_backups
  configure_defragmentation
  trust_kubelet
  # A power cut would leave new files empty, and no later run would write them again.
  sync --file-system -- "$CONF_DIR"
  log "this control plane is a member of the cluster"
}

wait_for_own_api() {
  # The kubelet waits up to five minutes before it starts one that keeps ending.
  wait_for 360 "the API server of this machine" own_api_is_ready ||
    die "the API server of this machine is not ready; the log of its container is in /var/log/pods" kubelet.service
}

own_api_is_ready() {
  api_ready "$NODE_IP:$API_PORT"
}

reset() {
  remove_backups
  remove_certificates_timer
  remove_defragmentation
  reset_node
  clear_etcd_data
  rm -rf -- "$ADOPT" "$CLOUD"
}

require_root
load_env NODE_NAME NODE_IP CLUSTER_NAME API_NAME KUBERNETES_VERSION CONTROL_PLANE_ADDRESSES \
  API_PORT LOCAL_API_PORT ETCD_CLIENT_PORT ETCD_PEER_PORT CONTROLLER_MANAGER_METRICS_PORT \
  SCHEDULER_METRICS_PORT CERTIFICATE_SECONDS
case $VERB in
  prepare | configure | alone | adopt | renew | defragment | encrypt | service-account | authorities | pod-tokens | reset)
    lock
    load_bucket
    case $VERB in
      prepare) prepare ;;
      configure) configure ;;
      alone) alone ;;
      adopt) adopt "${@:2}" ;;
      renew) renew ;;
      defragment) defragment ;;
      encrypt) encrypt "${@:2}" ;;
      service-account) service_account "${@:2}" ;;
      authorities) authorities "${@:2}" ;;
      pod-tokens) pod_tokens "${@:2}" ;;
      reset) reset ;;
    esac
    ;;
  approve) approve_serving_certificates || die "the API does not answer" haproxy.service ;;
  mount) mount_etcd_volume ;; # at boot, by systemd
  providers) [[ ! -e $ENCRYPTION ]] || providers "$ENCRYPTION" ;;
  state) if is_member; then echo joined; else echo new; fi ;;
  *) die "usage: control-plane.sh prepare|configure|alone|adopt|renew|approve|defragment|encrypt|service-account|authorities|pod-tokens|providers|state|reset|mount" ;;
esac
