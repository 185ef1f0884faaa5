#!/usr/bin/env bash
# A bucket of an object store that speaks S3, by curl 7.88 or later. Sourced, never run.
#
# It is described by bucket.env, which only root can read: BUCKET_ENDPOINT, BUCKET_REGION,
# BUCKET_NAME, BUCKET_FOLDER (the cluster's own), BUCKET_ACCESS_KEY, BUCKET_SECRET_KEY, BUCKET_KEEP.
# Without the file there is none.
# Names of objects consist of letters, digits and . _ - / only: nothing else is encoded.

# The status of a request that the store has not decided.
UNAVAILABLE=75

# The sum that signs a request without a body.
NO_BODY=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

# After load_env.
load_bucket() {
  # shellcheck source=/dev/null
  [[ ! -r $FOLDER/bucket.env ]] || source "$FOLDER/bucket.env"
}

has_bucket() {
  [[ -n ${BUCKET_NAME:-} ]]
}

# bucket_put FILE NAME: the store checks what it received against the sum. It accepts 5 GB at most.
bucket_put() {
  local sum
  sum=$(sha256sum <"$1")
  bucket_tell "${sum%% *}" "/$2" --upload-file "$1"
}

# bucket_list PREFIX: names, one per line. Fails above 1000, which is the page of a store.
bucket_list() {
  local answer result=0
  answer=$(mktemp)
  bucket_request "$NO_BODY" "$answer" "?list-type=2&prefix=${1//\//%2F}" || result=$?
  if ((result == 0)) && grep -q '<IsTruncated>true<' "$answer"; then
    log "more than 1000 objects of the bucket $BUCKET_NAME start with $1"
    result=1
  fi
  ((result != 0)) || { grep -o '<Key>[^<]*' "$answer" || true; } | cut -c 6- # there may be none
  rm -f -- "$answer"
  return "$result"
}

die_of_bucket() {
  die "the bucket $BUCKET_NAME at $BUCKET_ENDPOINT cannot be listed, for the reason above: correct backup.bucket or backupSecretKey, then pulumi up"
}

# bucket_get NAME FILE
bucket_get() {
  bucket_request "$NO_BODY" "$2" "/$1" && return
  rm -f -- "$2"
  return 1
}

# bucket_delete NAME: succeeds if there is no such object, as S3 does.
bucket_delete() {
  bucket_tell "$NO_BODY" "/$1" --request DELETE
}

# bucket_tell SHA256 PATH [OPTION]...: a request whose answer matters only when it fails.
bucket_tell() {
  local answer result=0
  answer=$(mktemp)
  bucket_request "$1" "$answer" "${@:2}" || result=$?
  rm -f -- "$answer"
  return "$result"
}

# bucket_request SHA256 OUTPUT PATH [OPTION]...: the store's answer goes to OUTPUT. A request that
# gets no answer, or one of the status 5xx, is sent three times (curl's --retry succeeds in 8.14 when
# it does not retry). Before 8.x curl signs the query as it is: parameters must be sorted and
# percent-encoded. Every header is signed, so a proxy must not add or remove any.
bucket_request() {
  local status message
  for _ in 1 2 3; do
    status=$(bucket_curl "$@") || status=000
    [[ $status == 000 || $status == 5?? ]] || break
    sleep "${BUCKET_PAUSE:-5}"
  done
  # A wrong region is answered with a redirect, which curl's --fail takes for a success.
  [[ $status != 2?? ]] || return 0
  message=$(tr -d '\n' <"$2" |
    sed -n 's:.*<Code>\([^<]*\)</Code>.*<Message>\([^<]*\)</Message>.*:\1\: \2:p')
  log "$BUCKET_ENDPOINT/$BUCKET_NAME answers ${status/000/nothing} ${message:-$(head -c 300 "$2")}"
  [[ $status != 000 && $status != 5?? ]] || return "$UNAVAILABLE"
  return 1
}

# bucket_curl: one request; prints the answer's status.
bucket_curl() {
  local sum=$1 output=$2 path=$3
  local -a ca=()
  shift 3
  [[ ! -e $FOLDER/bucket-ca.crt ]] || ca=(--cacert "$FOLDER/bucket-ca.crt")
  : >"$output"
  # The login on standard input, because every user of the machine sees command lines. The store may be
  # outside, where only the proxy leads to.
  bucket_login | with_proxy curl --disable --config - --silent --show-error --globoff --output "$output" \
    --write-out '%{http_code}' --header "x-amz-content-sha256: $sum" \
    --connect-timeout 10 --speed-limit 1 --speed-time 60 ${ca[@]+"${ca[@]}"} "$@" \
    "$BUCKET_ENDPOINT/$BUCKET_NAME$path"
}

bucket_login() {
  local secret=${BUCKET_SECRET_KEY//\\/\\\\}
  printf 'user = "%s:%s"\naws-sigv4 = "aws:amz:%s:s3"\n' \
    "$BUCKET_ACCESS_KEY" "${secret//\"/\\\"}" "$BUCKET_REGION"
}
