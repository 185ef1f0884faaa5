#!/usr/bin/env bash
# A bucket of an object store that speaks S3, by curl 7.88 or later. Sourced, never run.
#
# bucket.env, which only root may read, says which: BUCKET_ENDPOINT, BUCKET_REGION, BUCKET_NAME,
# BUCKET_ACCESS_KEY, BUCKET_SECRET_KEY, BUCKET_KEEP. Without the file there is none. Names of
# objects are made of letters, digits and . _ - / only: nothing else is encoded.

# What a request without a body is signed with.
NO_BODY=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

# load_bucket: beside load_env, for those that need it.
load_bucket() {
  # shellcheck source=/dev/null
  [[ ! -r $FOLDER/bucket.env ]] || source "$FOLDER/bucket.env"
}

has_bucket() {
  [[ -n ${BUCKET_NAME:-} ]]
}

# bucket_folder: of this very cluster. Another one of the same name has another CA.
bucket_folder() {
  local sum
  sum=$(sha256sum <"$FOLDER/ca.crt")
  printf '%s-%s' "$CLUSTER_NAME" "${sum:0:8}"
}

# bucket_put FILE NAME: the store compares what it got with the sum. It takes 5 GB at most.
bucket_put() {
  local sum
  sum=$(sha256sum <"$1")
  bucket_tell "${sum%% *}" "/$2" --upload-file "$1"
}

# bucket_list PREFIX: names, one a line. Fails above 1000, a store's page.
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
  die "the bucket $BUCKET_NAME at $BUCKET_ENDPOINT cannot be listed (see why above): set backup.bucket and backupSecretKey right"
}

# bucket_get NAME FILE
bucket_get() {
  bucket_request "$NO_BODY" "$2" "/$1" && return
  rm -f -- "$2"
  return 1
}

# bucket_delete NAME: one that is not there is no failure, as S3 has it.
bucket_delete() {
  bucket_tell "$NO_BODY" "/$1" --request DELETE
}

# bucket_tell SHA256 PATH [OPTION]...: a request whose answer counts only when it failed.
bucket_tell() {
  local answer result=0
  answer=$(mktemp)
  bucket_request "$1" "$answer" "${@:2}" || result=$?
  rm -f -- "$answer"
  return "$result"
}

# bucket_request SHA256 OUTPUT PATH [OPTION]...: what the store answers goes to OUTPUT. What is not
# answered, or by the store's own fault, is asked three times (curl's --retry ends well in 8.14 when
# it does not retry). Before 8.x curl signs the query as it is: parameters must be sorted and
# percent-encoded. Every header that is given is signed, so none may be taken away or added on the
# way.
bucket_request() {
  local status message
  for _ in 1 2 3; do
    status=$(bucket_curl "$@") || status=000
    [[ $status == 000 || $status == 5?? ]] || break
    sleep "${BUCKET_PAUSE:-5}"
  done
  # A wrong region is answered with a redirect, which curl's --fail takes for success.
  [[ $status != 2?? ]] || return 0
  message=$(tr -d '\n' <"$2" |
    sed -n 's:.*<Code>\([^<]*\)</Code>.*<Message>\([^<]*\)</Message>.*:\1\: \2:p')
  log "$BUCKET_ENDPOINT/$BUCKET_NAME answers ${status/000/nothing whole} ${message:-$(head -c 300 "$2")}"
  return 1
}

# bucket_curl: one request; prints the answer's status.
bucket_curl() {
  local sum=$1 output=$2 path=$3
  local -a ca=()
  shift 3
  [[ ! -e $FOLDER/bucket-ca.crt ]] || ca=(--cacert "$FOLDER/bucket-ca.crt")
  use_proxy
  : >"$output"
  # On standard input, as every user of the machine sees command lines.
  bucket_login | curl --disable --config - --silent --show-error --globoff --output "$output" \
    --write-out '%{http_code}' --header "x-amz-content-sha256: $sum" \
    --connect-timeout 10 --speed-limit 1 --speed-time 60 ${ca[@]+"${ca[@]}"} "$@" \
    "$BUCKET_ENDPOINT/$BUCKET_NAME$path"
}

bucket_login() {
  local secret=${BUCKET_SECRET_KEY//\\/\\\\}
  printf 'user = "%s:%s"\naws-sigv4 = "aws:amz:%s:s3"\n' \
    "$BUCKET_ACCESS_KEY" "${secret//\"/\\\"}" "$BUCKET_REGION"
}

# The store may be outside, where only the proxy leads to.
use_proxy() {
  local file
  for file in "$FOLDER/proxy.env" "$LIB_DIR/proxy.env"; do
    [[ -r $file ]] || continue
    set -a
    # shellcheck source=/dev/null
    source "$file"
    set +a
    return
  done
}
