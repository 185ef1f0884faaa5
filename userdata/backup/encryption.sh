#!/usr/bin/env bash
# The encryption of snapshots in the bucket: backup.crt closes them, backup.key opens them, and the keys
# of earlier generations, backup-N.key, those that were taken before a rotation. Sourced, never run.
#
# An object is a tar of CMS messages (AES-256-GCM), one for each 16 MiB of the compressed snapshot,
# because openssl holds a message in memory three times to open it. Pieces that are missing or out of
# order are found by gzip's sum, and by the one at the end of etcd's snapshot.

# encrypt_snapshot FILE OBJECT
# shellcheck disable=SC2016 # the shell that split starts expands them
encrypt_snapshot() {
  local pieces=$2.pieces
  mkdir -m 0700 -- "$pieces" &&
    CERTIFICATE=$FOLDER/backup.crt split --bytes=16M \
      --filter='openssl cms -encrypt -binary -outform DER -aes-256-gcm -recip "$CERTIFICATE" -keyopt ecdh_kdf_md:sha256 >"$FILE"' \
      -- "$1" "$pieces/" &&
    (cd -- "$pieces" && tar --create --remove-files --file "$2" -- *) &&
    rmdir -- "$pieces"
}

# open_backup NAME FILE SNAPSHOT: by its name: snapshots in the bucket are encrypted, those on the disk are not.
# shellcheck disable=SC2016 # the shell that tar starts expands it
open_backup() {
  local key
  case $1 in
    *.cms.tar)
      for key in "$FOLDER"/backup.key "$FOLDER"/backup-*.key; do
        [[ -e $key ]] || continue
        KEY=$key tar --extract --file "$2" \
          --to-command='openssl cms -decrypt -binary -inform DER -inkey "$KEY"' | gzip -d >"$3" && return
        log "${key##*/} does not open $1"
      done
      return 1
      ;;
    *) gzip -d <"$2" >"$3" ;;
  esac
}
