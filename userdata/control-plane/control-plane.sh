#!/usr/bin/env bash
# A control plane.
#
#   control-plane.sh converge   joins the cluster if it answers, initialises it if nobody does and
#                               this machine may; on a member, brings what changed into force
#   control-plane.sh alone      when the others are gone for good: etcd goes on with this member
#   control-plane.sh adopt [FOLDER]
#                               when all are gone, on the new first one: the next converge goes on
#                               from etcd's data on the volume, or in a folder beside it
#   control-plane.sh state      prints "joined" or "new"
#   control-plane.sh reset      takes everything of the cluster off the machine, etcd data too
#   control-plane.sh mount      mounts the etcd volume (its unit runs this at boot)
#
# No control plane is special: the first one that ever ran can be lost like any other.

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../lib/haproxy.sh
source "$HERE/lib/haproxy.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/cluster.sh
source "$HERE/cluster/cluster.sh"
# shellcheck source-path=SCRIPTDIR source=../node/node.sh
source "$HERE/node/node.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/etcd-volume.sh
source "$HERE/control-plane/etcd-volume.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/configuration.sh
source "$HERE/control-plane/configuration.sh"
# shellcheck source-path=SCRIPTDIR source=../backup/bucket.sh
source "$HERE/backup/bucket.sh"
# shellcheck source-path=SCRIPTDIR source=../control-plane/restore.sh
source "$HERE/control-plane/restore.sh"

PKI=$KUBERNETES_DIR/pki
MANIFESTS=$KUBERNETES_DIR/manifests

converge() {
  step "check what is here"
  local file
  for file in ca.crt kubeconfig kubeadm-init.yaml kubeadm-join.yaml pki/ca.crt pki/ca.key; do
    [[ -s $FOLDER/$file ]] || die "$FOLDER has no $file"
  done
  refuse_foreign_cluster
  drop_one_time_host_key
  if is_member && ! expelled; then
    converge_member
  else
    install_programs
    configure_api_proxy
    install_scripts
    prepare_etcd_volume
    enter_cluster
  fi
  configure_backups
  log "this control plane is a member of the cluster"
}

install_programs() {
  step "packages and programs"
  bash "$HERE/install/install.sh" all || die "install.sh all failed" containerd.service
}

# --- into the cluster -------------------------------------------------------------------------

enter_cluster() {
  step "ask for the cluster"
  # A cut-off init whose API has served is brought to its end: others may count on it.
  if half_done && init_has_served; then
    log "an earlier kubeadm init was cut off after its API had come up: finishing it"
    initialise --skip-phases=preflight,show-join-command
    return
  fi
  # After a cut-off join this machine's etcd may count for the majority: the others need it to run.
  if half_done && [[ -e $MANIFESTS/etcd.yaml ]]; then
    log "an earlier try was cut off"
    systemctl start kubelet.service || die "the kubelet does not start" kubelet.service
  fi
  if ! others_answer && others_live; then
    wait_for_others || die "a cluster exists, but the API of none of its control planes becomes ready: bring them back first (do they have their majority?). Nothing was initialised beside it"
  fi
  if [[ -n $ready ]]; then
    join_cluster
  elif [[ ${INITIALISE:-false} == true ]]; then
    if half_done; then
      clear_half_done
    fi
    drop_unserved
    if [[ -d $ADOPT ]]; then
      adopt_etcd
    elif [[ -n ${RESTORE:-} ]]; then
      restore_etcd
    else
      refuse_orphaned_data
      refuse_to_forget
      rm -rf -- "$RESTORE_WORK" # of a restore that was given up: kubeadm wants an empty folder
    fi
    initialise --skip-phases=show-join-command
  else
    wait_for_others || die "no other control plane answers ($CONTROL_PLANE_ADDRESSES, port 6443), and INITIALISE is not true here: see what the control plane that initialises the cluster says"
    join_cluster
  fi
}

# The kubelet goes on where a run was cut off, so the API may have come up when nobody looked.
init_has_served() {
  [[ $(attempt) == init ]] || return 1
  [[ ! -e $STATE_DIR/served ]] || return 0
  [[ -e $MANIFESTS/etcd.yaml ]] || return 1
  wait_for "${OWN_API_TIMEOUT:-60}" "the API server of this machine" api_ready "$NODE_IP:6443"
}

wait_for_others() {
  wait_for "${API_TIMEOUT:-600}" "the API of another control plane" others_answer
}

# The certificate authorities and what the API server reads beside them.
copy_files() {
  local file name mode
  for file in "$FOLDER"/pki/* "$FOLDER"/pki/etcd/*; do
    [[ -f $file ]] || continue
    mode=0600
    [[ $file == *.key ]] || mode=0644
    copy_file "$file" "$PKI/${file#"$FOLDER"/pki/}" "$mode"
  done
  for file in "$FOLDER"/etc/*; do
    [[ -f $file ]] || continue
    name=${file##*/}
    copy_file "$file" "$KUBERNETES_DIR/$name" 0600
  done
}

# look_around: asks every other control plane at once. Sets `ready` to the first address whose API
# is ready, else `listening` to those where an API server or an etcd takes connections at all.
look_around() {
  local address code connected
  ready='' listening=''
  while read -r address code connected; do
    if [[ $code == 200 ]]; then
      ready=$address
      return
    fi
    [[ $connected =~ ^0[.0]*$ ]] || listening+=" $address"
  done < <(ask_around)
}

ask_around() {
  local address port
  exec 9>&- # the lock: a slow answer must not hold it
  for address in $CONTROL_PLANE_ADDRESSES; do
    [[ $address != "$NODE_IP" ]] || continue
    for port in 6443 2380; do
      # What it prints says more than its exit status.
      curl --silent --output /dev/null --noproxy '*' --connect-timeout 2 --max-time 4 \
        --cacert "$FOLDER/ca.crt" --write-out "$address %{http_code} %{time_connect}\n" \
        "https://$address:$port/readyz" || true &
    done
  done
  wait
}

others_answer() {
  look_around
  [[ -n $ready ]] || return 1
  log "the API answers at $ready"
}

# A control plane that listens but is not ready belongs to a cluster that is ill or just coming
# up. Initialising beside it would make a second cluster behind the same name.
others_live() {
  [[ -n $listening ]] || return 1
  log "a cluster exists, though its API is not ready: something listens at$listening"
}

# Nobody else answers: etcd's data is worth nothing if an init made it whose API never came up, and
# may be the last copy if it came from a cluster that this machine was just joining. kubeadm would
# empty the whole folder, with what was set aside there.
clear_half_done() {
  [[ $(attempt) != init || ! -d $ETCD_DATA/member ]] || : >"$UNSERVED"
  RESET_SKIP=remove-etcd-member reset_node
}

clear_etcd_data() {
  rm -rf -- "$ETCD_DATA/member" "$ETCD_DATA"/.snapshot* "$RESTORE_WORK" "$ADOPT" "$SET_ASIDE"*
  rm -f -- "$RESTORING"
  clear_lost_and_found
}

initialise() {
  local -a flags
  local watcher
  mapfile -t flags < <(kubeadm_flags)
  [[ ! -e $RESTORING ]] || flags+=(--ignore-preflight-errors=DirAvailable--var-lib-etcd)
  step "kubeadm init"
  copy_files
  clear_lost_and_found
  begin_attempt init
  watch_for_api &
  watcher=$!
  run kubeadm init --config "$FOLDER/kubeadm-init.yaml" --skip-token-print "$@" \
    ${flags[@]+"${flags[@]}"} || die "kubeadm init failed" kubelet.service
  wait_for_own_api
  wait "$watcher"
  settle_restored
  finish_entering
  remember_configuration
}

clear_lost_and_found() {
  [[ ! -d $ETCD_DATA/lost+found ]] || rmdir -- "$ETCD_DATA/lost+found"
}

# Notes when the API is up, for kubeadm goes on for a while after that and may be cut off.
watch_for_api() {
  exec 9>&-
  trap - ERR EXIT
  until api_ready "$NODE_IP:6443"; do
    kill -0 "$$" 2>/dev/null || return 0 # the run has ended
    sleep 0.3
  done
  note_served
}

join_cluster() {
  local try
  step "join the cluster"
  wait_for_api_proxy || die "the API does not answer through the node-local HAProxy" haproxy.service
  refuse_older_data
  for try in 1 2 3; do
    leave_no_trace
    join_once && break
    ((try < 3)) || die "kubeadm join failed $try times" kubelet.service
    # etcd admits one learner at a time, and only while all is well.
    log "kubeadm join failed: cleaning up and trying again"
  done
  finish_entering
  settle_configuration
}

# An earlier machine of this name, or an earlier try of this one, must leave the cluster before
# anything is wiped here: its etcd may count for the majority. A dead member left in etcd would
# make the join hang at the health check.
leave_no_trace() {
  step "look for an earlier machine of this name"
  wait_for 60 "the Node $NODE_NAME or word that there is none" read_node "$NODE_NAME" ||
    die "the cluster does not say whether a Node $NODE_NAME exists"
  if [[ -n $node_exists && $node_ready == True && -n $node_address && $node_address != "$NODE_IP" ]]; then
    die "a Node $NODE_NAME is Ready at $node_address, which is not this machine ($NODE_IP)"
  fi
  if [[ -n $node_exists ]]; then
    log "deleting its Node"
    kube delete node "$NODE_NAME" --ignore-not-found >/dev/null || die "the stale Node $NODE_NAME could not be deleted"
  fi
  wait_for 120 "etcd on another control plane" remove_etcd_member ||
    die "etcd's members could not be listed: is etcd on the other control planes well?"
  if half_done; then
    reset_node
  fi
  # The cluster lives without this machine: whatever an etcd left here is stale.
  clear_etcd_data
  copy_files
}

join_once() {
  local -a flags
  mapfile -t flags < <(kubeadm_flags)
  step "kubeadm join"
  mint_token || {
    log "no join token could be made"
    return 1
  }
  at_exit "rm -f -- '$RUN_DIR/discovery.conf'"
  (umask 077 && discovery >"$RUN_DIR/discovery.conf")
  begin_attempt join
  local status=0
  run kubeadm join --config "$FOLDER/kubeadm-join.yaml" ${flags[@]+"${flags[@]}"} || status=$?
  rm -f -- "$RUN_DIR/discovery.conf"
  forget_token
  return "$status"
}

finish_entering() {
  step "wait for this control plane"
  wait_for_own_api
  end_attempt
  rm -f -- "$STATE_DIR/served"
}

wait_for_own_api() {
  wait_for 240 "the API server of this machine" api_ready "$NODE_IP:6443" ||
    die "the API server of this machine is not ready; its container's log is in /var/log/pods" kubelet.service
}

# Whoever joins takes what the cluster has stored, which is old where this machine is the first one
# to bring something new: another name for the certificate, for example.
settle_configuration() {
  local stored running
  rm -f -- "$STATE_DIR/kubeadm-init.sha256"
  # With a new version and a new machine in one run this is the first one that brings the version;
  # no later run would come here again, for nothing in the folder changes any more.
  running=$(api_server_version) || running=''
  if [[ -n $running && $running != "$KUBERNETES_VERSION" ]]; then
    step "wait for the Node, before the upgrade"
    wait_for "${READY_TIMEOUT:-300}" "the Node $NODE_NAME to be Ready" own_node_is_ready ||
      die "the Node $NODE_NAME is not Ready, and its API server runs $running: run again when it is" kubelet.service
    upgrade
  fi
  stored=$(kube -n kube-system get configmap kubeadm-config -o "jsonpath={.metadata.annotations.$STORED_SUM}") ||
    die "kubeadm's configuration in the cluster could not be read"
  if [[ $stored == "$(cluster_configuration_sum)" ]]; then
    remember_configuration
  else
    converge_configuration
    refresh_kubelet_config
  fi
}

own_node_is_ready() {
  read_node "$NODE_NAME" && [[ $node_ready == True ]]
}

# --- a member ---------------------------------------------------------------------------------

# A machine that was dead while its node was taken out of the cluster comes back as nobody: etcd on
# the others does not know it any more.
expelled() {
  local members
  ! wait_for "${OWN_API_TIMEOUT:-30}" "the API server of this machine" api_ready "$NODE_IP:6443" || return 1
  others_answer || return 1
  members=$(etcdctl_elsewhere member list) || return 1
  [[ $members != *"//$NODE_IP:2380"* ]] || return 1
  log "the cluster has taken this machine out while it was away: joining again"
  begin_attempt join
}

converge_member() {
  need_packages curl=curl
  refuse_wrong_bucket
  ! grep -qxF -- "$ALONE" "$MANIFESTS/etcd.yaml" || restart_etcd "$(etcd_together)"
  restore_api_server_certificate
  configure_api_proxy
  install_scripts
  if [[ $(kubelet_version) != "$KUBERNETES_VERSION" || $(api_server_version) != "$KUBERNETES_VERSION" ]]; then
    upgrade
  fi
  install_programs
  converge_files
  converge_configuration
  renew_certificates
  converge_node
  refresh_kubelet_config
  wait_for_own_api
}

# A Node that was deleted comes back when its kubelet starts, without its role.
converge_node() {
  read_node "$NODE_NAME" || die "the Node $NODE_NAME could not be read"
  [[ -z $node_exists ]] || return 0
  step "register the Node again"
  systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  wait_for 60 "the kubelet to register" node_is_there || die "the kubelet does not register" kubelet.service
  run kubeadm init phase mark-control-plane --config "$FOLDER/kubeadm-init.yaml" ||
    die "kubeadm could not mark $NODE_NAME as a control plane"
}

node_is_there() {
  read_node "$NODE_NAME" && [[ -n $node_exists ]]
}

converge_files() {
  step "files of the control plane"
  cmp -s -- "$FOLDER/pki/ca.crt" "$PKI/ca.crt" ||
    die "the folder's CA certificate is not the one of the cluster this machine is in"
  copy_files
  local file
  for file in "$FOLDER"/etc/*; do
    if [[ -f $file ]] && changed "$KUBERNETES_DIR/${file##*/}"; then
      restart_static_pod kube-apiserver
      return
    fi
  done
}

# --- upgrade ----------------------------------------------------------------------------------

api_server_version() {
  sed -n 's/^ *image: .*kube-apiserver:\([^@]*\).*$/\1/p' "$MANIFESTS/kube-apiserver.yaml"
}

# The first control plane that gets here upgrades the cluster, the others only themselves. The
# caller sees to it that they come one at a time.
upgrade() {
  local -a flags
  local cluster newest
  mapfile -t flags < <(kubeadm_flags)
  step "upgrade from $(api_server_version) to $KUBERNETES_VERSION"
  newest=$(printf '%s\n' "$(api_server_version)" "$KUBERNETES_VERSION" | sort -V | tail -n 1)
  [[ $newest == "$KUBERNETES_VERSION" ]] ||
    die "this control plane runs $(api_server_version): Kubernetes cannot go back to $KUBERNETES_VERSION"
  wait_for_own_api
  bash "$HERE/install/install.sh" kubeadm || die "install.sh kubeadm failed"
  cluster=$(kube -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' |
    sed -n 's/^kubernetesVersion: *//p') || die "the cluster's kubeadm configuration could not be read"
  if [[ $cluster == "$KUBERNETES_VERSION" ]]; then
    run kubeadm upgrade node ${flags[@]+"${flags[@]}"} || die "kubeadm upgrade node failed" kubelet.service
  else
    run kubeadm upgrade apply --yes ${flags[@]+"${flags[@]}"} "$KUBERNETES_VERSION" ||
      die "kubeadm upgrade apply failed" kubelet.service
  fi
  install_programs # restarts the kubelet
  wait_for_own_api
}

# --- backups ----------------------------------------------------------------------------------

BACKUP_UNIT=openstack-kubernetes-backup
BUCKET_FILES=(bucket.env bucket-ca.crt)

# One that was in use before is not asked: a store that is away must not keep a cluster from being
# repaired.
refuse_wrong_bucket() {
  local file new=''
  has_bucket || return 0
  for file in "${BUCKET_FILES[@]}"; do
    [[ ! -e $FOLDER/$file ]] || cmp -s -- "$FOLDER/$file" "$CONF_DIR/$file" || new=$file
  done
  [[ -n $new ]] || return 0
  step "look into the new bucket"
  bucket_list "$(bucket_folder)/" >/dev/null || die_of_bucket
}

configure_backups() {
  local file
  step "backups"
  for file in "${BUCKET_FILES[@]}"; do
    if [[ -e $FOLDER/$file ]]; then
      copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0600
    else
      rm -f -- "$CONF_DIR/$file"
    fi
  done
  if [[ -z ${BACKUP_HOURS:-} ]]; then
    timer_remove "$BACKUP_UNIT"
    return
  fi
  timer_apply "$BACKUP_UNIT" "[Unit]
Description=Snapshot of etcd

[Service]
Type=oneshot
Nice=10
IOSchedulingClass=idle
ExecStart=/bin/bash $LIB_DIR/backup/backup.sh take" "[Unit]
Description=Snapshots of etcd

[Timer]
OnActiveSec=3min
OnUnitActiveSec=${BACKUP_HOURS}h
RandomizedDelaySec=1min

[Install]
WantedBy=timers.target"
}

reset() {
  timer_remove "$BACKUP_UNIT"
  rm -f -- "${BUCKET_FILES[@]/#/$CONF_DIR/}"
  reset_node
  clear_etcd_data
}

require_root
load_env NODE_NAME NODE_IP CLUSTER_NAME API_NAME KUBERNETES_VERSION CONTROL_PLANE_ADDRESSES
case $VERB in
  converge | alone | adopt | reset)
    lock
    load_bucket
    case $VERB in
      converge) converge ;;
      alone) alone ;;
      adopt) adopt "${@:2}" ;;
      reset) reset ;;
    esac
    ;;
  mount) mount_etcd_volume ;; # at boot, by systemd
  state) if is_member; then echo joined; else echo new; fi ;;
  *) die "usage: control-plane.sh converge|alone|adopt|state|reset|mount" ;;
esac
