#!/usr/bin/env bash
# The folder's files for /etc/kubernetes. Sourced, never run.

# shellcheck disable=SC2034 # the files that come after this one use it
PKI=$KUBERNETES_DIR/pki
CLOUD=$KUBERNETES_DIR/cloud
# What its manifest may name, and reads when it starts.
API_SERVER_FILES=("$KUBERNETES_DIR"/{admission,audit-policy,authentication}.yaml)

# Of a machine that is no member: the certificate authorities, what the API server reads, and the
# programs that log in to the cloud.
copy_files() {
  copy_authorities
  copy_plain_files
  first_encryption
  first_service_account_key
}

copy_plain_files() {
  local file name
  for file in "$FOLDER"/etc/*; do
    [[ -f $file ]] || continue
    name=${file##*/}
    copy_file "$file" "$KUBERNETES_DIR/$name" 0600
  done
  copy_cloud_configs
}

# Only the group of the pods that log in can read them. A program that no longer does loses its own.
copy_cloud_configs() {
  local file name place
  for file in "$CLOUD"/*/*; do
    [[ -e $FOLDER/cloud/${file#"$CLOUD"/} ]] || rm -f -- "$file"
  done
  for file in "$FOLDER"/cloud/*/*; do
    [[ -f $file ]] || continue
    name=${file#"$FOLDER"/cloud/}
    place=$CLOUD/${name%/*}
    mkdir -p -- "$place"
    chgrp -- "$CLOUD_CONFIG_GROUP" "$place"
    chmod -- 2750 "$place" # its files have its group
    copy_file "$file" "$CLOUD/$name" 0640
  done
}

# Before an upgrade: its manifests may name a new file already.
update_files() {
  step "files of the control plane"
  update_authorities
  ! brings_new_files || keep_manifests
  copy_plain_files
  update_encryption
  update_service_account_key
}

# One that is refused would cost this API server.
brings_new_files() {
  local file
  for file in "${API_SERVER_FILES[@]}"; do
    ! is_named "$file" || cmp -s -- "$FOLDER/etc/${file##*/}" "$file" || return 0
  done
  return 1
}

# One that its manifest does not name yet is read when kubeadm has written the next.
reread_files() {
  local file
  for file in "${API_SERVER_FILES[@]}"; do
    if changed "$file" && is_named "$file"; then
      step "the files that the API server reads"
      try_manifests stop_static_pods kube-apiserver
      return
    fi
  done
  rm -rf -- "$LAST_MANIFESTS"
}

# is_named FILE: by the API server's manifest.
is_named() {
  grep -qF -- "${1#"$ROOT"}" "$MANIFESTS/kube-apiserver.yaml"
}
