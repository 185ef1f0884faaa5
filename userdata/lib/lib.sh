#!/usr/bin/env bash
# The start of every script: strict mode, paths, and the functions of this folder. Sourced, never
# run.
#
# A script's input is the folder that its own folder lies in (docs/contract.md). Installed copies
# read CONF_DIR instead, where the last run left what is no secret of the cluster.

# shellcheck source-path=SCRIPTDIR/..
set -Eeuo pipefail
shopt -s inherit_errexit
umask 022
export LC_ALL=C PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The cluster's own addresses are never reached through a proxy; with_proxy sets it where it is due.
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY

# The real path: the script keeps working while another release becomes the current one.
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
SCRIPT=$(basename -- "$0")
VERB=${1:-}
VERB_STEP=${2:-}

# The tests put everything below a folder of their own.
# shellcheck disable=SC2034 # the files that source this use them
{
  ROOT=${OPENSTACK_KUBERNETES_ROOT:-}
  KUBERNETES_DIR=$ROOT/etc/kubernetes
  UNIT_DIR=$ROOT/etc/systemd/system
  CONF_DIR=$ROOT/etc/openstack-kubernetes
  STATE_DIR=$ROOT/var/lib/openstack-kubernetes
  RUN_DIR=$ROOT/run/openstack-kubernetes
  # node-exporter reads every file there (addons/monitoring/chart.py).
  METRICS_DIR=$STATE_DIR/metrics
  LIB_DIR=$ROOT/usr/local/lib/openstack-kubernetes
  # Where units and people find the scripts of the last run.
  SCRIPTS_DIR=$LIB_DIR/current
}

FOLDER=$HERE
[[ -e $FOLDER/node.env ]] || FOLDER=$CONF_DIR

source "$HERE/lib/messages.sh"
source "$HERE/lib/changes.sh"
source "$HERE/lib/exit.sh"
source "$HERE/lib/node-env.sh"
source "$HERE/lib/lock.sh"
source "$HERE/lib/files.sh"
source "$HERE/lib/wait.sh"
source "$HERE/lib/packages.sh"
source "$HERE/lib/units.sh"
source "$HERE/lib/hosts.sh"
source "$HERE/lib/ssh-host-key.sh"
source "$HERE/lib/installed-scripts.sh"
source "$HERE/lib/metrics.sh"
