#!/bin/sh
# Creates the buckets that are missing, each for the user of its name: create_buckets.sh FOLDER
# BUCKET... Runs in the object store's image before it serves anyone. The server that it starts for that
# has its settings, and answers on the loopback only.
set -eu

folder=$1
shift
mkdir -p "$folder"

versitygw posix "$folder" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT
export ADMIN_ENDPOINT_URL="http://$VGW_ADMIN_PORT" ADMIN_REGION="$VGW_REGION"

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
