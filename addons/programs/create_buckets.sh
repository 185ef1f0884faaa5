#!/bin/sh
# Creates the buckets that are missing, each for the user of its name: create_buckets.sh FOLDER
# BUCKET... Runs in the object store's image before it serves anyone, with the store's own settings.
# What it starts for that answers on the loopback only.
set -eu

folder=$1
shift
mkdir -p "$folder"

port=7070
VGW_PORT=127.0.0.1:$port VGW_ADMIN_PORT=127.0.0.1:$((port + 1)) versitygw posix "$folder" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT
export ADMIN_ENDPOINT_URL="http://127.0.0.1:$((port + 1))"
export ADMIN_REGION="$VGW_REGION"

create() {
  tries=60
  while ! answer=$(versitygw admin create-bucket --bucket "$1" --owner "$1" 2>&1); do
    case $answer in
      *BucketAlreadyOwnedByYou*) return ;;
      *"connection refused"*) ;;
      *) tries=0 ;;
    esac
    tries=$((tries - 1))
    if [ "$tries" -le 0 ] || ! kill -0 "$server" 2>/dev/null; then
      echo "the bucket $1 cannot be created: $answer" >&2
      exit 1
    fi
    sleep 0.5
  done
  echo "created the bucket $1"
}

for bucket; do
  create "$bucket"
done
