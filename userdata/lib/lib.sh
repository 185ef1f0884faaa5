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

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
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
# node-exporter reads every file there (addons/monitoring/chart.py).
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
  local -a statuses
  log "+ $*"
  "$@" 2>&1 </dev/null | journal && return 0
  statuses=("${PIPESTATUS[@]}")
  return "${statuses[0]}"
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
  for file in "$HERE"/*/*.sh; do
    copy_file "$file" "$LIB_DIR/${file#"$HERE/"}" 0755
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

# --- units -------------------------------------------------------------------------------------

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

# timer_apply UNIT SERVICE TIMER: the texts of its two files; the timer runs, by this text, and
# starts at boot.
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
