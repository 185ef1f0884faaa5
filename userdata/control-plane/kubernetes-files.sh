#!/usr/bin/env bash
# The folder's files for /etc/kubernetes. Sourced, never run.

PKI=$KUBERNETES_DIR/pki

# The certificate authorities, and what the API server reads besides them.
copy_files() {
  local file name mode
  for file in "$FOLDER"/pki/* "$FOLDER"/pki/etcd/*; do
    [[ -f $file ]] || continue
    mode=0600
    [[ $file == *.key ]] || mode=0644
    copy_file "$file" "$PKI/${file#"$FOLDER"/pki/}" "$mode"
  done
  for file in "$FOLDER"/etc/*; do
    [[ -f $file ]] || continue
    name=${file##*/}
    copy_file "$file" "$KUBERNETES_DIR/$name" 0600
  done
}

update_files() {
  local file
  step "files of the control plane"
  cmp -s -- "$FOLDER/pki/ca.crt" "$PKI/ca.crt" ||
    die "the CA certificate in the folder is not that of the cluster of which this machine is a member"
  copy_files
  for file in "$FOLDER"/etc/*; do
    if [[ -f $file ]] && changed "$KUBERNETES_DIR/${file##*/}"; then
      restart_static_pod kube-apiserver
      return
    fi
  done
}
