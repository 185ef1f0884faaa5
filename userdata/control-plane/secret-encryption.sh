#!/usr/bin/env bash
# The encryption of Secrets in etcd, and the steps of a rotation of its key on this control plane.
# Sourced, never run.
#
# Of the providers in the API server's file the first one writes, and all of them read. The API server
# reads a changed file within a minute.
# shellcheck disable=SC2154 # tokens.sh sets token_id

ENCRYPTION=$KUBERNETES_DIR/encryption/configuration.yaml
SECRETS=/registry/secrets/
ENCRYPT_USAGE="usage: control-plane.sh encrypt read|first|rewrite|only NAME..."

# providers FILE: their names, in its order.
providers() {
  sed -n 's/^  - {"identity".*/identity/p; s/^  - {"secretbox".*"name": "\([^"]*\)".*/\1/p' "$1"
}

# write_encryption FILE NAME...: the file with these of its providers, each once, in this order.
write_encryption() {
  local file=$1 text name line seen=' '
  shift
  text=$(sed '/^  - /d' "$file")
  for name; do
    [[ $seen != *" $name "* ]] || continue
    seen+="$name "
    line=$(grep -E "^  - \{\"($name\"|.*\"name\": \"$name\")" "$file") || die "$file has no provider $name"
    text+=$'\n'$line
  done
  write_file "$ENCRYPTION" 0600 "$text"
}

# first_encryption: of a machine that is no member yet.
first_encryption() {
  local -a all
  mapfile -t all < <(providers "$FOLDER/encryption.yaml")
  write_encryption "$FOLDER/encryption.yaml" "${all[@]}"
}

# encrypt_as_the_others: with what has encrypted the token of this join, for all others can read that.
encrypt_as_the_others() {
  local -a all
  local stored writer
  mapfile -t all < <(providers "$FOLDER/encryption.yaml")
  if has_older_keys "${all[@]}"; then
    stored=$(etcdctl_elsewhere get --print-value-only "${SECRETS}kube-system/bootstrap-token-$token_id" |
      tr -cd '[:print:]') || return
    case $stored in
      k8s:enc:secretbox:v1:*:*)
        writer=${stored#k8s:enc:secretbox:v1:}
        writer=${writer%%:*}
        ;;
      k8s*) writer=identity ;;
      *)
        log "etcd does not show how the join token is encrypted"
        return 1
        ;;
    esac
    refuse_unknown_providers "$writer"
    write_encryption "$FOLDER/encryption.yaml" "$writer" "${all[@]}"
  fi
}

# update_encryption: on a member. The others may not be able to read yet what a new key encrypts, so it
# only reads at first: `encrypt first` comes when all of them have it.
update_encryption() {
  local -a all have=()
  mapfile -t all < <(providers "$FOLDER/encryption.yaml")
  [[ ! -e $ENCRYPTION ]] || mapfile -t have < <(providers "$ENCRYPTION")
  refuse_unknown_providers "${have[@]}"
  if has_older_keys "${all[@]}" && ((${#have[@]} > 0)); then
    write_encryption "$FOLDER/encryption.yaml" "${have[@]}" "${all[@]:0:2}"
  else
    write_encryption "$FOLDER/encryption.yaml" "${all[@]}"
  fi
}

# has_older_keys NAME...: every control plane has always had the first key and `identity`.
has_older_keys() {
  (($# > 2))
}

# refuse_unknown_providers NAME...: before any control plane forgets what Secrets are encrypted with.
refuse_unknown_providers() {
  local name known
  known=$(providers "$FOLDER/encryption.yaml" | tr '\n' ' ')
  for name; do
    [[ " $known" == *" $name "* ]] ||
      die "the cluster's Secrets may be encrypted with $name, which the folder does not have: rotation.encryptionKey must never go back; set it to $((10#${name#key})) or more"
  done
}

# encrypt STEP NAME...: a step of cluster/encryption-key.sh, which has all control planes do one before
# any of them does the next. Each can be repeated.
#
#   read NAME      the API server can read what this provider encrypts
#   first NAME     it encrypts with this provider
#   rewrite NAME   every Secret in etcd is encrypted with this provider
#   only NAME...   it knows no other providers
encrypt() {
  local -a have
  (($# >= 2)) || die "$ENCRYPT_USAGE"
  [[ -e $ENCRYPTION ]] || die "there is no $ENCRYPTION: run pulumi up first"
  mapfile -t have < <(providers "$ENCRYPTION")
  [[ " ${have[*]} " == *" $2 "* ]] || die "$ENCRYPTION has no provider $2: run pulumi up first"
  case $1 in
    read) ;;
    first) write_encryption "$ENCRYPTION" "$2" "${have[@]}" ;;
    rewrite) rewrite_secrets "$2" ;;
    only) write_encryption "$ENCRYPTION" "${@:2}" ;;
    *) die "$ENCRYPT_USAGE" ;;
  esac
  step "wait for the API server to read $ENCRYPTION"
  WAIT_PAUSE=${WAIT_PAUSE:-3} wait_for "${RELOAD_TIMEOUT:-240}" "the API server to read $ENCRYPTION" encryption_is_read ||
    die "the API server of this machine does not read $ENCRYPTION: the log of its container is in /var/log/pods" kubelet.service
}

# The API server says the sum of the file that is in force.
encryption_is_read() {
  local sum
  sum=$(sha256sum <"$ENCRYPTION")
  kube --server="https://$NODE_IP:$API_PORT" get --raw /metrics |
    grep -F 'apiserver_encryption_config_controller_last_config_info{' |
    grep -F "\"sha256:${sum%% *}\"" >/dev/null
}

# rewrite_secrets PROVIDER: page by page. What is encrypted with it already is skipped, so a run that
# follows an interrupted one continues there.
rewrite_secrets() {
  local etcd from=$SECRETS next
  local -a stale
  step "encrypt every Secret with $1"
  find_etcd
  while [[ -n $from ]]; do
    WAIT_PAUSE=${WAIT_PAUSE:-3} wait_for "${REWRITE_TIMEOUT:-120}" "Secrets that are encrypted with $1" page_is_rewritten "$1" ||
      die "${stale[0]-the first Secret after $from} could not be encrypted with $1, for the reason above. The old key stays until then: run pulumi up again"
    from=$next
  done
}

# page_is_rewritten PROVIDER: an empty patch makes the API server write what it finds encrypted with
# anything but its first provider.
page_is_rewritten() {
  local namespace
  local -a names
  read_page "$1" || return
  ((${#stale[@]} > 0)) || return 0
  log "${#stale[@]} of the Secrets after $from are encrypted with something else"
  for namespace in $(printf '%s\n' "${stale[@]}" | cut -d / -f 4 | sort -u); do
    mapfile -t names < <(printf '%s\n' "${stale[@]}" | grep "^$SECRETS$namespace/" | cut -d / -f 5)
    # One that is deleted meanwhile makes it fail: what counts is the second look.
    kube --namespace "$namespace" patch secret "${names[@]}" --type=merge --patch='{}' >/dev/null || true
  done
  read_page "$1" && ((${#stale[@]} == 0))
}

# read_page PROVIDER: the Secrets in etcd after `from`. Sets `stale` to the keys of those that another
# provider has encrypted, and `next` to where the next page begins.
read_page() {
  local part parts key='' begin
  stale=() next=''
  begin=$(printf 'k8s:enc:secretbox:v1:%s:' "$1" | base64 --wrap=0)
  parts=$(etcdctl_in "$etcd" get "$from" "${SECRETS%/}0" --limit=100 --write-out=json |
    grep -oE '"revision":|"key":"[^"]*|"value":"[^"]{0,40}|"more":true') || return
  while IFS= read -r part; do
    case $part in
      '"key":"'*) key=${part#'"key":"'} ;;
      '"value":"'*) is_encrypted_with "$1" "$begin" "${part#'"value":"'}" || stale+=("$(base64 -d <<<"$key")") ;;
      '"more":true') next=$(base64 -d <<<"$key")! ;; # no name has a character that sorts before this one
    esac
  done <<<"$parts"
}

# is_encrypted_with PROVIDER BEGIN VALUE: all in base64, the value only as far as it says this.
is_encrypted_with() {
  if [[ $1 == identity ]]; then
    [[ $3 != azhzOmVu* ]] # k8s:en
  else
    [[ $3 == "$2"* ]]
  fi
}
