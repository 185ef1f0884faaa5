#!/usr/bin/env bash
# The keys of service accounts' tokens on this control plane, and the steps of their rotation. Sourced,
# never run; after token-keys.sh and pod-tokens.sh.
# shellcheck disable=SC2154 # turn.sh sets obstacle
#
# The API server signs with `sa.key` and accepts tokens of every key in `sa.pub`; it reads both when it
# starts. `sa-next.key` and `sa-next.pub` are those of the newest generation, which take their place.

SERVICE_ACCOUNT_USAGE="usage: control-plane.sh service-account accept|sign|secrets|only KEY..."

# key_generations: of the folder, the newest last.
key_generations() {
  local file
  for file in "$FOLDER"/service-account/*.key; do
    file=${file##*/}
    printf '%s\n' "${file%.key}"
  done | sort -n
}

# first_service_account_key: on a machine that is no member yet. No one knows which key the data that it
# may begin with needs, so it accepts all, and the rotation ends that.
first_service_account_key() {
  local -a all
  mapfile -t all < <(key_generations)
  write_accepted "${all[@]/#/$FOLDER/service-account/}"
  use_keys "${all[-1]}"
}

# use_keys SIGNING: generations of the folder.
use_keys() {
  local newest
  newest=$(key_generations | tail -n 1)
  copy_file "$FOLDER/service-account/$1.key" "$PKI/sa.key" 0600
  keep_next_key "$newest"
}

# keep_next_key GENERATION: for the steps, which come later.
keep_next_key() {
  (($1 > 1)) || return 0
  copy_file "$FOLDER/service-account/$1.key" "$PKI/sa-next.key" 0600
  copy_file "$FOLDER/service-account/$1.pub" "$PKI/sa-next.pub" 0644
}

# write_accepted PATH...: sa.pub with the public keys of these files; `.pub` is added to each name.
write_accepted() {
  local text
  text=$(cat -- "${@/%/.pub}")
  write_file "$PKI/sa.pub" 0644 "$text"
}

# sign_as_the_others: a machine that joins signs with the oldest key that all others accept, and accepts
# what any of them does.
sign_as_the_others() {
  local address addresses accepted id generation signing=''
  local -a all use=()
  local -A askers=()
  local answers=0
  mapfile -t all < <(key_generations)
  ((${#all[@]} > 1)) || return 0
  addresses=$(kube get nodes -l node-role.kubernetes.io/control-plane -o \
    jsonpath='{range .items[*]}{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}') || return
  for address in $addresses; do
    [[ $address != "$NODE_IP" ]] || continue
    accepted=$(accepted_keys "$address") || continue # one that is down is asked by the rotation
    answers=$((answers + 1))
    for id in $accepted; do
      askers[$id]=$((${askers[$id]:-0} + 1))
    done
  done
  for generation in "${all[@]}"; do
    id=$(key_id <"$FOLDER/service-account/$generation.pub")
    ((generation == all[-1] || ${askers[$id]:-0} > 0)) || continue
    use+=("$generation")
    [[ -n $signing ]] || ((answers == 0 || ${askers[$id]:-0} < answers)) || signing=$generation
  done
  if [[ -z $signing ]]; then
    log "no other control plane says which service-account key all of them accept"
    return 1
  fi
  write_accepted "${use[@]/#/$FOLDER/service-account/}"
  use_keys "$signing"
}

# update_service_account_key: on a member. It does not change what the API server uses: the steps do,
# when all others are ready for it.
update_service_account_key() {
  local generation newest
  newest=$(key_generations | tail -n 1)
  if [[ ! -s $PKI/sa.key ]]; then
    first_service_account_key
    return
  fi
  for generation in $(key_generations); do
    if cmp -s -- "$FOLDER/service-account/$generation.key" "$PKI/sa.key"; then
      keep_next_key "$newest"
      return
    fi
  done
  die "the API server signs tokens with a key that the folder does not have: rotation.serviceAccountKey must never go back; set it to what it was or to a higher number"
}

# service_account STEP KEY...: a step of cluster/service-account-key.sh, which has all control planes do
# one before any of them does the next. Each can be repeated.
#
#   accept KEY       the API server accepts tokens of this key, too
#   sign KEY         API server and controller manager sign with it
#   secrets KEY...   refuses if a Secret has a token of one of these keys
#   only KEY         the API server accepts no tokens of other keys
service_account() {
  (($# >= 2)) || die "$SERVICE_ACCOUNT_USAGE"
  if [[ $1 == secrets ]]; then
    refuse_tokens_in_secrets "${@:2}"
    return
  fi
  [[ -s $PKI/sa-next.pub && $(key_id <"$PKI/sa-next.pub") == "$2" ]] ||
    die "this control plane does not have the service-account key $2: run pulumi up first"
  case $1 in
    accept)
      [[ " $(file_keys | paste -sd ' ') " == *" $2 "* ]] || write_accepted "$PKI/sa" "$PKI/sa-next"
      apply_accepted
      ;;
    sign) sign_with_next "$2" ;;
    only)
      [[ $(signing_key) == "$2" ]] || die "the API server does not sign with the service-account key $2 yet"
      write_accepted "$PKI/sa-next"
      apply_accepted
      ;;
    *) die "$SERVICE_ACCOUNT_USAGE" ;;
  esac
}

# file_keys: the IDs of all keys in sa.pub.
file_keys() {
  local line block=''
  while IFS= read -r line; do
    block+=$line$'\n'
    if [[ $line == -----END* ]]; then
      key_id <<<"$block"
      echo
      block=''
    fi
  done <"$PKI/sa.pub"
}

# apply_accepted: the API server has read sa.pub.
apply_accepted() {
  accepts_the_file || restart_api_server
  wait_for "${RESTART_TIMEOUT:-180}" "the API server to accept the keys of sa.pub" accepts_the_file ||
    die "the API server does not accept the keys in $PKI/sa.pub, and no others; the log of its container is in /var/log/pods" kubelet.service
}

accepts_the_file() {
  local accepted
  accepted=$(accepted_keys "$NODE_IP") || return
  [[ $(sort -u <<<"$accepted") == "$(file_keys | sort -u)" ]]
}

sign_with_next() {
  copy_file "$PKI/sa-next.key" "$PKI/sa.key" 0600
  signs_with "$1" || restart_api_server
  wait_for "${RESTART_TIMEOUT:-180}" "the API server to sign with the new key" signs_with "$1" ||
    die "the API server does not sign with the key in $PKI/sa.key; the log of its container is in /var/log/pods" kubelet.service
  # It signs the tokens in Secrets, and its own come from this API server.
  changed "$PKI/sa.key" || return 0
  restart_static_pods kube-controller-manager
  wait_for "${RESTART_TIMEOUT:-180}" "the controller manager" answers_healthz "$CONTROLLER_MANAGER_METRICS_PORT" ||
    die "the controller manager is not healthy; the log of its container is in /var/log/pods" kubelet.service
}

signs_with() {
  [[ $(signing_key) == "$1" ]]
}

# signing_key: as a new token shows it.
signing_key() {
  local token
  token=$(kube --server="https://$NODE_IP:$API_PORT" -n kube-system create token default --duration=10m) || return 0
  signed_by "$token"
}

restart_api_server() {
  wait_for_turn "another service-account key"
  wait_for 300 "the other control planes" others_are_well ||
    die "$obstacle: no API server is restarted now"
  restart_static_pods kube-apiserver
}

# The token in a Secret has no end, and whoever has a copy would be locked out unseen.
refuse_tokens_in_secrets() {
  local listed namespace name token key old=''
  step "look for tokens in Secrets"
  listed=$(kube get secrets --all-namespaces --field-selector type=kubernetes.io/service-account-token -o \
    jsonpath='{range .items[*]}{.metadata.namespace}{" "}{.metadata.name}{" "}{.data.token}{"\n"}{end}') ||
    die "the Secrets could not be listed"
  while read -r namespace name token; do
    [[ -n $token ]] || continue
    key=$(signed_by "$(base64 -d <<<"$token")")
    [[ -z $key || " $* " != *" $key "* ]] || old+=" $namespace/$name"
  done <<<"$listed"
  [[ -z $old ]] ||
    die "these Secrets have tokens of the old key:$old. For each: kubectl -n NAMESPACE patch secret NAME --type=merge -p '{\"data\":{\"token\":null}}', which gives it a new one; pass that to whoever has a copy of the old one; then pulumi up"
}
