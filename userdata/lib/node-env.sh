#!/usr/bin/env bash
# The settings in node.env. Sourced by lib.sh.

# load_env KEY...: reads node.env, which must have these keys.
load_env() {
  [[ -r $FOLDER/node.env ]] || die "no node.env in $HERE or $CONF_DIR"
  # shellcheck source=/dev/null
  source "$FOLDER/node.env"
  need_env "$@"
}

need_env() {
  local key
  for key; do
    [[ -n ${!key:-} ]] || die "node.env has no $key"
  done
}

# gateway_index: the number of this gateway; nothing if it is not one of GATEWAY_ADDRESSES.
gateway_index() {
  local address index=0
  for address in ${GATEWAY_ADDRESSES:-}; do
    [[ $address != "$NODE_IP" ]] || printf '%d' "$index"
    index=$((index + 1))
  done
}

require_root() {
  [[ $EUID -eq 0 || -n $ROOT ]] || die "needs root: sudo bash $SCRIPT $VERB"
}
