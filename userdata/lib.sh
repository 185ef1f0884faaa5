#!/usr/bin/env bash
# What every script here starts with: settings, messages, files, waiting. Sourced, never run.
#
# A script's input is the folder it lies in (docs/contract.md). Installed copies in LIB_DIR
# take what `prepare` left in CONF_DIR instead.

set -Eeuo pipefail
shopt -s inherit_errexit
umask 022
export LC_ALL=C PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The cluster's own addresses are never reached through a proxy; install.sh reads proxy.env itself.
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
SCRIPT=$(basename -- "$0")
VERB=${1:-}

# The tests put everything below a folder of their own.
# shellcheck disable=SC2034 # the scripts that source this use them
KUBERNETES_DIR=${OPENSTACK_KUBERNETES_ROOT:-}/etc/kubernetes
ROOT=${OPENSTACK_KUBERNETES_ROOT:-}
LIB_DIR=$ROOT/usr/local/lib/openstack-kubernetes
CONF_DIR=$ROOT/etc/openstack-kubernetes
STATE_DIR=$ROOT/var/lib/openstack-kubernetes
RUN_DIR=$ROOT/run/openstack-kubernetes
# node-exporter reads every file there (addons/monitoring.py).
# shellcheck disable=SC2034 # the scripts that source this use it
METRICS_DIR=$STATE_DIR/metrics

FOLDER=$HERE
[[ -e $FOLDER/node.env ]] || FOLDER=$CONF_DIR

STEP=start
CHANGED=()    # paths that write_file and copy_file changed, since this script last ended well
UNFINISHED='' # where they are noted for the next run, should this one be cut off
CLEANUPS=()   # commands to run on the way out, last first

# --- messages ---------------------------------------------------------------------------------

log() {
  printf '%(%H:%M:%S)T %s\n' -1 "$*" >&2
  logger -t "openstack-kubernetes/$SCRIPT" -- "$*" 2>/dev/null || return 0
}

step() {
  STEP=$*
  log "== $*"
}

# die MESSAGE [UNIT]: names the node, the step and, with a unit, the last lines of its journal.
die() {
  local machine
  trap - ERR
  machine=$(hostname)
  log "ERROR: node ${NODE_NAME:-$machine}, $SCRIPT $VERB, step \"$STEP\": $1"
  if [[ -n ${2:-} ]]; then
    log "unit $2 is $(systemctl is-active -- "$2" 2>&1 || true); the last lines of its journal:"
    unit_log "$2"
  fi
  log "the whole run: journalctl -t openstack-kubernetes/$SCRIPT on $machine"
  exit 1
}

unit_log() {
  { journalctl --no-pager --quiet --output=cat --lines=15 --unit="$1" 2>&1 || true; } |
    sed 's/^/  | /' >&2
}

# complaint COMMAND...: the last lines of what a command that fails says, for an error's text.
complaint() {
  { "$@" 2>&1 </dev/null || true; } | tail -n 3
}

unexpected() {
  die "line $2: \"$3\" ended with status $1"
}
trap 'unexpected "$?" "$LINENO" "$BASH_COMMAND"' ERR

# run COMMAND...: its output goes to standard error and to the journal; its status is returned.
run() {
  local -a status
  log "+ $*"
  "$@" 2>&1 </dev/null | journal && return 0
  status=("${PIPESTATUS[@]}")
  return "${status[0]}"
}

journal() {
  if [[ -S /run/systemd/journal/stdout ]] && command -v systemd-cat >/dev/null; then
    tee /dev/stderr | systemd-cat -t "openstack-kubernetes/$SCRIPT"
  else
    cat >&2
  fi
}

at_exit() {
  CLEANUPS+=("$1")
}

leave_script() {
  local code=$? index
  set +e
  trap - ERR
  trap '' PIPE # nobody listens any more: the rest is done all the same
  for ((index = ${#CLEANUPS[@]} - 1; index >= 0; index--)); do
    eval "${CLEANUPS[index]}"
  done
  [[ $code != 0 || -z $UNFINISHED ]] || rm -f -- "$UNFINISHED"
  exit "$code"
}
trap leave_script EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
trap 'exit 141' PIPE # the connection was cut

# --- settings ---------------------------------------------------------------------------------

load_env() {
  [[ -r $FOLDER/node.env ]] || die "no node.env in $HERE or $CONF_DIR"
  # shellcheck source=/dev/null
  source "$FOLDER/node.env"
  local key
  for key; do
    [[ -n ${!key:-} ]] || die "node.env has no $key"
  done
}

require_root() {
  [[ $EUID -eq 0 || -n $ROOT ]] || die "needs root: sudo bash $SCRIPT $VERB"
}

# One run at a time on a machine: a run whose connection was cut may still be at work.
lock() {
  mkdir -p -- "$RUN_DIR"
  chmod 0700 "$RUN_DIR"
  exec 9>"$RUN_DIR/lock"
  if ! flock --nonblock 9; then
    log "another run is at work on this machine: waiting for it to end"
    flock --timeout "${LOCK_TIMEOUT:-900}" 9 || die "another run has held $RUN_DIR/lock for too long"
  fi
  mkdir -p -- "$STATE_DIR"
  UNFINISHED=$STATE_DIR/unfinished-$SCRIPT-$VERB
  [[ ! -e $UNFINISHED ]] || mapfile -t CHANGED <"$UNFINISHED"
}

# --- files ------------------------------------------------------------------------------------

# write_file PATH MODE CONTENT: only when it differs, and never half of it.
write_file() {
  local path=$1 mode=$2 content=$3 new
  mkdir -p -- "${path%/*}"
  new=$(mktemp -- "${path%/*}/.new.XXXXXXXX")
  printf '%s\n' "$content" >"$new"
  settle_file "$new" "$path" "$mode"
}

# copy_file SOURCE PATH MODE: the same for a file.
copy_file() {
  local source=$1 path=$2 mode=$3 new
  mkdir -p -- "${path%/*}"
  new=$(mktemp -- "${path%/*}/.new.XXXXXXXX")
  cat -- "$source" >"$new"
  settle_file "$new" "$path" "$mode"
}

settle_file() {
  local new=$1 path=$2 mode=$3
  chmod -- "$mode" "$new"
  if cmp -s -- "$new" "$path"; then
    rm -f -- "$new"
    chmod -- "$mode" "$path"
  else
    # Noted first: whoever reads the file has yet to be told.
    [[ -z $UNFINISHED ]] || printf '%s\n' "$path" >>"$UNFINISHED"
    mv -f -- "$new" "$path"
    CHANGED+=("$path")
    log "wrote $path"
  fi
}

# changed PATH...: did this run change one of them, or one before it that did not end well?
changed() {
  local path have
  for path; do
    for have in ${CHANGED[@]+"${CHANGED[@]}"}; do
      [[ $have != "$path" ]] || return 0
    done
  done
  return 1
}

# The names every machine needs while there is no name server to ask.
write_hosts() {
  local path=$ROOT/etc/hosts rest block entry
  block="127.0.0.1 $API_NAME"
  for entry in ${NODE_HOSTS:-}; do
    [[ ${entry#*=} == "$NODE_NAME" ]] || block+=$'\n'"${entry%%=*} ${entry#*=}"
  done
  block+=$'\n'"$NODE_IP $NODE_NAME"
  rest=$(sed '/^# openstack-kubernetes begin/,/^# openstack-kubernetes end/d' "$path")
  write_file "$path" 0644 "$rest
# openstack-kubernetes begin (written by $SCRIPT)
$block
# openstack-kubernetes end"
  # Debian's cloud image lets cloud-init write the file anew at every boot.
  if [[ -d $ROOT/etc/cloud/cloud.cfg.d ]]; then
    write_file "$ROOT/etc/cloud/cloud.cfg.d/99-openstack-kubernetes.cfg" 0644 \
      'manage_etc_hosts: false'
  fi
}

# What later runs on this machine need: the scripts, and what is no secret of the folder.
install_scripts() {
  local file
  [[ $HERE != "$LIB_DIR" ]] || return 0
  # Where it is missing node-exporter counts an error.
  mkdir -p -- "$METRICS_DIR"
  for file in "$HERE"/*.sh; do
    copy_file "$file" "$LIB_DIR/${file##*/}" 0755
  done
  # install.sh looks for its settings beside itself, also when it runs there later.
  for file in $(settings_of_install "$LIB_DIR"); do
    [[ -e $HERE/$file ]] || rm -f -- "$LIB_DIR/$file"
  done
  for file in $(settings_of_install "$HERE"); do
    copy_file "$HERE/$file" "$LIB_DIR/$file" 0600
  done
  for file in node.env ca.crt kubeadm-join.yaml; do
    [[ ! -e $FOLDER/$file ]] || copy_file "$FOLDER/$file" "$CONF_DIR/$file" 0644
  done
}

# settings_of_install FOLDER: their paths in it.
settings_of_install() {
  (shopt -s nullglob && cd "$1" && printf '%s\n' containerd/*.toml containerd/certs.d/*/hosts.toml proxy.en[v])
}

# The one-time key that user_data carried serves until the real one has been used once.
drop_one_time_host_key() {
  local marker=$STATE_DIR/one-time-host-key
  [[ -e $marker ]] || return 0
  rm -f -- "$ROOT/etc/ssh/ssh_host_ed25519_key" "$ROOT/etc/ssh/ssh_host_ed25519_key.pub"
  reload_sshd
  rm -f -- "$marker"
  log "removed the one-time SSH host key"
}

reload_sshd() {
  mkdir -p -- "$ROOT/run/sshd"
  sshd -t || die "sshd refuses its configuration" ssh.service
  systemctl try-reload-or-restart ssh.service || die "sshd does not reload" ssh.service
}

# --- waiting ----------------------------------------------------------------------------------

# wait_for SECONDS WHAT COMMAND...: asks until it succeeds; status 1 when the time is over.
wait_for() {
  local limit=$1 what=$2 start=$SECONDS told=$SECONDS pause=${WAIT_PAUSE:-0.3}
  shift 2
  until "$@"; do
    if ((SECONDS - start >= limit)); then
      log "$what: not within $limit s"
      return 1
    fi
    if ((SECONDS - told >= 15)); then
      told=$SECONDS
      log "waiting for $what ($((SECONDS - start)) of at most $limit s)"
    fi
    sleep "$pause"
  done
}

# api_ready ADDRESS:PORT: does an API server of this cluster answer there, and is it ready?
api_ready() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 3 \
    --cacert "$FOLDER/ca.crt" "https://$1/readyz"
}

wait_for_api_proxy() {
  wait_for "${API_TIMEOUT:-300}" "the cluster's API at $API_NAME:7443" api_ready "$API_NAME:7443"
}

# --- packages ---------------------------------------------------------------------------------

# need_packages COMMAND=PACKAGE...: apt only when a command is missing.
need_packages() {
  local pair missing=()
  for pair; do
    command -v -- "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  log "installing ${missing[*]}"
  if [[ -r $FOLDER/proxy.env ]]; then
    (
      set -a
      # shellcheck source=/dev/null
      source "$FOLDER/proxy.env"
      apt_install "${missing[@]}"
    ) || die "apt-get could not install ${missing[*]}"
  else
    apt_install "${missing[@]}" || die "apt-get could not install ${missing[*]}"
  fi
}

apt_install() {
  local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0
    -o Dpkg::Options::=--force-confold)
  run "${apt[@]}" update && run "${apt[@]}" install --no-install-recommends -- "$@"
}

# --- HAProxy: what gateways and nodes share --------------------------------------------------

HAPROXY_CFG=$ROOT/etc/haproxy/haproxy.cfg
HAPROXY_CA=$ROOT/etc/haproxy/openstack-kubernetes-ca.crt
HAPROXY_SOCKET=$ROOT/run/haproxy/admin.sock
HAPROXY_HEALTH=127.0.0.1:8404

# haproxy_base LINE...: the global and default settings, and the port that says "alive".
haproxy_base() {
  cat <<EOT
# Written by openstack-kubernetes ($SCRIPT): changes are lost at the next run.
global
  user haproxy
  group haproxy
  stats socket $HAPROXY_SOCKET mode 600 level admin
  hard-stop-after 4h
$(printf '  %s\n' "$@")

defaults
  mode tcp
  option redispatch 1
  option dontlognull
  option clitcpka
  option srvtcpka
  srvtcpka-idle 5s
  srvtcpka-intvl 1s
  srvtcpka-cnt 3
  retries 4
  timeout connect 1s
  timeout client 1m
  timeout server 1m
  timeout tunnel 4h
  timeout client-fin 30s
  timeout server-fin 30s
  timeout check 2s

frontend health
  mode http
  bind $HAPROXY_HEALTH
  http-request return status 200 content-type text/plain string ok if { path /healthz }
  http-request return status 404
EOT
}

# haproxy_api TIMES ADDRESS:PORT...: the API behind these addresses, balanced over every control
# plane that is ready; TIMES are the intervals of the health checks.
haproxy_api() {
  local times=$1 bind address
  shift
  printf '\nfrontend api\n'
  for bind; do
    printf '  bind %s\n' "$bind"
  done
  cat <<EOT
  default_backend api

backend api
  balance roundrobin
  option httpchk
  http-check send meth GET uri /readyz
  http-check expect status 200
  default-server check check-ssl verify required ca-file $HAPROXY_CA $times
EOT
  for address in $CONTROL_PLANE_ADDRESSES; do
    # tcp-ut ends connections to a machine that fell silent. (on-marked-down shutdown-sessions does
    # too, but leaves the clients of connections that were just being opened hanging; and in
    # default-server tcp-ut is ignored.)
    printf '  server %s %s:6443 tcp-ut 2s\n' "$address" "$address"
  done
}

# haproxy_apply CONTENT: checks the configuration, puts it in place, reloads only on a change.
haproxy_apply() {
  local content=$1 trial fault
  need_packages haproxy=haproxy
  [[ ! -e $FOLDER/ca.crt ]] || copy_file "$FOLDER/ca.crt" "$HAPROXY_CA" 0644
  trial=$(mktemp -- "$RUN_DIR/haproxy.XXXXXXXX")
  at_exit "rm -f -- '$trial'"
  printf '%s\n' "$content" >"$trial"
  fault=$(haproxy -c -q -f "$trial" 2>&1) || die "HAProxy refuses its configuration: $fault"
  write_file "$HAPROXY_CFG" 0644 "$content"
  unit_apply haproxy.service "$HAPROXY_CFG" "$HAPROXY_CA"
  wait_for 15 "HAProxy" haproxy_alive || die "HAProxy does not answer on $HAPROXY_HEALTH" haproxy.service
}

haproxy_alive() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 2 "http://$HAPROXY_HEALTH/healthz"
}

# unit_apply UNIT PATH...: runs, starts at boot, and has read these files.
unit_apply() {
  local unit=$1
  shift
  systemctl is-enabled --quiet -- "$unit" || systemctl --quiet enable -- "$unit"
  if ! systemctl is-active --quiet -- "$unit"; then
    systemctl reset-failed -- "$unit" 2>/dev/null || true # not failed: nothing to reset
    systemctl start -- "$unit" || die "$unit does not start" "$unit"
  elif changed "$@"; then
    systemctl reload -- "$unit" || die "$unit does not reload" "$unit"
  fi
}

# timer_apply UNIT SERVICE TIMER: the texts of its two files; the timer runs, by this text, and starts
# at boot.
timer_apply() {
  local unit=$1 service=$ROOT/etc/systemd/system/$1.service timer=$ROOT/etc/systemd/system/$1.timer
  write_file "$service" 0644 "$2"
  write_file "$timer" 0644 "$3"
  ! changed "$service" "$timer" || systemctl daemon-reload
  systemctl is-enabled --quiet -- "$unit.timer" || systemctl --quiet enable -- "$unit.timer"
  if changed "$timer" || ! systemctl is-active --quiet -- "$unit.timer"; then
    systemctl restart -- "$unit.timer" || die "$unit.timer does not start" "$unit.timer"
  fi
}

timer_remove() {
  local unit=$1
  [[ -e $ROOT/etc/systemd/system/$unit.timer ]] || return 0
  log "$unit is not wanted any more"
  systemctl --quiet disable --now -- "$unit.timer" || die "$unit.timer cannot be stopped" "$unit.timer"
  rm -f -- "$ROOT/etc/systemd/system/$unit".{service,timer}
  systemctl daemon-reload
}

# --- the cluster, through kubectl -------------------------------------------------------------

kube() {
  kubectl --kubeconfig "$FOLDER/kubeconfig" --request-timeout=20s "$@"
}

api_answers() {
  kube get --raw /readyz >/dev/null 2>&1
}

# Annotation of a Node that a gate has cordoned; without it the cordon is a person's, or kured's.
CORDONED=openstack-kubernetes-cordoned

# read_node NAME: sets node_* from the Node object; node_exists is empty when there is none.
read_node() {
  local text
  node_exists='' node_cordoned='' node_marked='' node_provider='' node_address='' node_version='' node_ready='' node_message=''
  text=$(kube get node "$1" --ignore-not-found -o jsonpath='{.metadata.name}{"|"}{.spec.unschedulable}{"|"}{.metadata.annotations.'$CORDONED'}{"|"}{.spec.providerID}{"|"}{.status.addresses[?(@.type=="InternalIP")].address}{"|"}{.status.nodeInfo.kubeletVersion}{"|"}{range .status.conditions[?(@.type=="Ready")]}{.status}{"|"}{.message}{end}') ||
    return
  # shellcheck disable=SC2034 # the scripts that source this use them
  IFS='|' read -r node_exists node_cordoned node_marked node_provider node_address node_version node_ready node_message <<<"$text"
}

# mint_token: a bootstrap token that lives for 15 minutes and goes when this script ends.
mint_token() {
  local secret
  token_id=$(random_text 6)
  secret=$(random_text 16)
  # shellcheck disable=SC2034 # write_discovery's callers
  token=$token_id.$secret
  at_exit forget_token
  kube create -f - >/dev/null <<EOT || return
apiVersion: v1
kind: Secret
metadata:
  name: bootstrap-token-$token_id
  namespace: kube-system
type: bootstrap.kubernetes.io/token
stringData:
  description: made by openstack-kubernetes for $NODE_NAME to join with
  token-id: "$token_id"
  token-secret: "$secret"
  expiration: $(date -u -d '+15 minutes' +%Y-%m-%dT%H:%M:%SZ)
  usage-bootstrap-authentication: "true"
  usage-bootstrap-signing: "true"
  auth-extra-groups: system:bootstrappers:kubeadm:default-node-token
EOT
}

forget_token() {
  [[ -n ${token_id:-} ]] || return 0
  kube -n kube-system delete secret "bootstrap-token-$token_id" --ignore-not-found >/dev/null ||
    log "the join token could not be deleted: it ends by itself within 15 minutes"
  token_id=''
}

random_text() {
  local text=''
  while ((${#text} < $1)); do
    text+=$(head -c 512 /dev/urandom | tr -dc 'a-z0-9')
  done
  printf '%s' "${text:0:$1}"
}

# discovery: the kubeconfig that `kubeadm join` finds the cluster by. The CA certificate is the
# one that the admin kubeconfig trusts.
discovery() {
  local ca
  ca=$(kube config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}')
  [[ -n $ca ]] || die "the kubeconfig in the folder has no certificate-authority-data"
  cat <<EOT
apiVersion: v1
kind: Config
clusters:
- name: kubernetes
  cluster:
    server: https://$API_NAME:7443
    certificate-authority-data: $ca
users:
- name: join
  user:
    token: "$token"
contexts:
- name: join
  context:
    cluster: kubernetes
    user: join
current-context: join
EOT
}

# etcdctl of the member in whose container it runs.
ETCD_PKI=/etc/kubernetes/pki/etcd
ETCDCTL=(etcdctl --endpoints=https://127.0.0.1:2379 --cacert="$ETCD_PKI/ca.crt"
  --cert="$ETCD_PKI/healthcheck-client.crt" --key="$ETCD_PKI/healthcheck-client.key")

# etcdctl_elsewhere ARGUMENT...: in the etcd pod of another control plane than this node.
etcdctl_elsewhere() {
  local pods pod node ready
  pods=$(kube -n kube-system get pods -l component=etcd,tier=control-plane -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.spec.nodeName}{" "}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}') ||
    return
  while read -r pod node ready; do
    [[ -n $pod && $node != "$NODE_NAME" && $ready == True ]] || continue
    timeout 30 kubectl --kubeconfig "$FOLDER/kubeconfig" -n kube-system exec "$pod" -- \
      "${ETCDCTL[@]}" "$@" </dev/null && return 0
    log "no answer from $pod: trying the next etcd"
  done <<<"$pods"
  log "no other control plane's etcd answers"
  return 1
}

# remove_etcd_member: takes this node out of etcd, whether it started there or not.
remove_etcd_member() {
  local members id status name peers rest
  members=$(etcdctl_elsewhere member list) || return
  while IFS=, read -r id status name peers rest; do
    if [[ ${name# } == "$NODE_NAME" || $peers == *"//$NODE_IP:2380"* ]]; then
      log "removing this node's etcd member $id (${status# })"
      etcdctl_elsewhere member remove "$id" >/dev/null || return
    fi
  done <<<"$members"
}

# --- kubeadm on this machine ------------------------------------------------------------------
# `attempt` says that kubeadm was started, `member` that it finished: with the first and without
# the second, the last run was cut off.

is_member() {
  [[ -e $STATE_DIR/member && -e $KUBERNETES_DIR/kubelet.conf ]]
}

begin_attempt() {
  mkdir -p -- "$STATE_DIR"
  rm -f -- "$STATE_DIR/member"
  write_file "$STATE_DIR/attempt" 0644 "$1"
  sync -- "$STATE_DIR"
}

end_attempt() {
  write_file "$STATE_DIR/member" 0644 "$CLUSTER_NAME"
  rm -f -- "$STATE_DIR/attempt"
}

half_done() {
  [[ ! -e $STATE_DIR/member ]] &&
    [[ -e $STATE_DIR/attempt || -e $KUBERNETES_DIR/kubelet.conf ||
      -e $KUBERNETES_DIR/bootstrap-kubelet.conf ]]
}

reset_node() {
  step "kubeadm reset"
  if command -v kubeadm >/dev/null; then
    run timeout "${RESET_TIMEOUT:-240}" kubeadm reset --force --cleanup-tmp-dir ||
      die "kubeadm reset failed" containerd.service
  fi
  rm -rf -- "$ROOT"/etc/cni/net.d/* "$RUN_DIR/discovery.conf"
  rm -f -- "$STATE_DIR"/{attempt,member,served,kubeadm-init.sha256,kube-proxy,kubelet-config,renewed}
}

# A machine that belongs to another cluster is left alone for as long as that cluster lives.
refuse_foreign_cluster() {
  local pki=$KUBERNETES_DIR/pki/ca.crt conf=$KUBERNETES_DIR/kubelet.conf
  [[ -e $conf && -e $pki ]] && ! cmp -s -- "$pki" "$FOLDER/ca.crt" || return 0
  if timeout 20 kubectl --kubeconfig "$conf" --request-timeout=10s get --raw /readyz >/dev/null 2>&1; then
    die "this machine is a node of another cluster that is alive; take it out there first: kubectl drain and delete node, then $LIB_DIR/worker.sh reset here"
  fi
  log "this machine was a node of a cluster that does not answer any more"
  reset_node
}

kubeadm_flags() {
  [[ -z ${IGNORE_PREFLIGHT_ERRORS:-} ]] ||
    printf -- '--ignore-preflight-errors=%s\n' "$IGNORE_PREFLIGHT_ERRORS"
}

kubelet_version() {
  local text
  text=$(kubelet --version 2>/dev/null) || return 0
  printf '%s' "${text#Kubernetes }"
}

# The kubelet's settings are the cluster's; a change of them reaches a node that has joined here.
refresh_kubelet_config() {
  local config=$ROOT/var/lib/kubelet/config.yaml before pending=$STATE_DIR/kubelet-config
  step "kubelet configuration"
  before=$(sha256sum <"$config")
  [[ ! -e $pending ]] || before='' # an earlier run was cut off: it may not have restarted the kubelet
  : >"$pending"
  run kubeadm upgrade node phase kubelet-config || die "the kubelet's configuration could not be read from the cluster" kubelet.service
  rm -rf -- "$KUBERNETES_DIR"/tmp/kubeadm-kubelet-config* # kubeadm keeps a copy of every run
  if [[ $(sha256sum <"$config") != "$before" ]] || ! systemctl is-active --quiet kubelet.service; then
    log "restarting the kubelet"
    systemctl restart kubelet.service || die "the kubelet does not start" kubelet.service
  fi
  wait_for 60 "the kubelet" kubelet_healthy || die "the kubelet is not healthy" kubelet.service
  rm -f -- "$pending"
}

# container_of POD: the id of the running container of a static pod.
container_of() {
  crictl ps --quiet --state Running --label io.kubernetes.pod.namespace=kube-system --name "^$1\$"
}

kubelet_healthy() {
  curl --silent --fail --output /dev/null --noproxy '*' --max-time 2 http://127.0.0.1:10248/healthz
}
