#!/usr/bin/env bash
# The cluster's API, seen from the active gateway, where this runs.
#
#   api.sh wait   waits until the API answers

# shellcheck source-path=SCRIPTDIR source=../lib/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/lib.sh"
# shellcheck source-path=SCRIPTDIR source=../cluster/kubectl.sh
source "$HERE/cluster/kubectl.sh"

case $VERB in
  wait)
    load_env NODE_NAME
    wait_for_api
    ;;
  *) die "usage: api.sh wait" ;;
esac
