#!/usr/bin/env bash
# The tokens of service accounts that the kubelet has given to pods. Sourced, never run.

POD_TOKENS_USAGE="pod-tokens replace|wait KEY..."

# signed_by TOKEN: the ID of the key; nothing if it is no token.
signed_by() {
  local header=${1%%.*}
  [[ $1 == eyJ*.* ]] || return 0
  header=${header//-/+}
  header=${header//_//}
  while ((${#header} % 4)); do
    header+='='
  done
  { base64 -d <<<"$header" 2>/dev/null || true; } | sed -n 's/.*"kid": *"\([^"]*\)".*/\1/p'
}

# pod_tokens_of KEY...: the files with tokens that one of these keys has signed.
pod_tokens_of() {
  local file text key
  while IFS= read -r -d '' file; do
    # A pod that ends takes its files along.
    text=$({ head -c 1000 -- "$file" 2>/dev/null || true; } | tr -d '\0')
    key=$(signed_by "$text")
    [[ -z $key || " $* " != *" $key "* ]] || printf '%s\n' "$file"
  done < <({ find "$ROOT/var/lib/kubelet/pods" -path '*/volumes/kubernetes.io~projected/*' -type f \
    -print0 2>/dev/null || true; })
}

# pod_tokens STEP KEY...: a step of cluster/service-account-key.sh. Each can be repeated.
#
#   replace KEY...   the kubelet is asked for new tokens if any pod has one of these keys: it does not
#                    remember them when it starts, and no pod restarts
#   wait KEY...      no pod has one any more
pod_tokens() {
  local -a files
  (($# >= 2)) || die "usage: $SCRIPT $POD_TOKENS_USAGE"
  case $1 in
    replace)
      mapfile -t files < <(pod_tokens_of "${@:2}")
      ((${#files[@]} > 0)) || return 0
      log "${#files[@]} tokens of pods are to be replaced"
      restart_kubelet
      ;;
    wait)
      step "wait for the new tokens of pods"
      WAIT_PAUSE=${WAIT_PAUSE:-3} wait_for "${TOKENS_TIMEOUT:-300}" "new tokens of pods" no_pod_tokens_of "${@:2}" ||
        die "pods still have tokens of the old key: $(pod_tokens_of "${@:2}" | paste -sd ' ')" kubelet.service
      ;;
    *) die "usage: $SCRIPT $POD_TOKENS_USAGE" ;;
  esac
}

no_pod_tokens_of() {
  [[ -z $(pod_tokens_of "$@") ]]
}
