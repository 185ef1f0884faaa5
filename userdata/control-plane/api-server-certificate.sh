#!/usr/bin/env bash
# The API server's certificate, when its names change. Sourced, never run.

# reissue_api_server_certificate CONFIG: kubeadm keeps a certificate that exists, but its names may
# have changed. The API server reads the new one by itself.
reissue_api_server_certificate() {
  rm -f -- "$PKI"/apiserver.{crt,key}.old
  mv -f -- "$PKI/apiserver.crt" "$PKI/apiserver.crt.old"
  mv -f -- "$PKI/apiserver.key" "$PKI/apiserver.key.old"
  run kubeadm init phase certs apiserver --config "$1" || {
    mv -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.crt"
    mv -f -- "$PKI/apiserver.key.old" "$PKI/apiserver.key"
    die "kubeadm could not issue the API server's certificate"
  }
  rm -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.key.old"
  complete_certificates
}

# A run that was interrupted there left none; kubeadm writes the certificate after its key.
restore_api_server_certificate() {
  [[ ! -e $PKI/apiserver.crt && -e $PKI/apiserver.crt.old ]] || return 0
  log "an earlier run was interrupted while it renewed the API server's certificate"
  [[ ! -e $PKI/apiserver.key.old ]] || mv -f -- "$PKI/apiserver.key.old" "$PKI/apiserver.key"
  mv -f -- "$PKI/apiserver.crt.old" "$PKI/apiserver.crt"
}
